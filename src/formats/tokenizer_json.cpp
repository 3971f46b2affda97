// Reads tokenizer.json, the file of the Hugging Face tokenizers library: a byte-level BPE vocabulary and the
// steps before it. The vocabulary and the merges are taken as they stream past (they are nearly all of the
// file); the rest becomes a small document. Nothing is trusted: counts, lengths, depth and every field we
// use.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/byte_level.h"
#include "formats/tokenizer_description.h"

namespace kapitsa {
namespace {

using Document = nlohmann::json;  // members in a map: no quadratic search for double keys

constexpr std::size_t entries_max = 1u << 22;  // tokens, merges, and values of all the rest
constexpr std::size_t piece_bytes_max = 64u << 10;
constexpr std::size_t depth_max = 16;

/// What the parser calls. Keeps `model.vocab` and `model.merges` as lists and everything else as a document.
class Reader {
public:
    using number_integer_t = Document::number_integer_t;
    using number_unsigned_t = Document::number_unsigned_t;
    using number_float_t = Document::number_float_t;
    using string_t = Document::string_t;
    using binary_t = Document::binary_t;

    bool null() { return scalar(nullptr); }
    bool boolean(bool value) { return scalar(value); }
    bool number_integer(number_integer_t value) { return scalar(value); }
    bool number_float(number_float_t value, const string_t&) { return scalar(value); }
    bool binary(binary_t&) { return false; }

    bool number_unsigned(number_unsigned_t value) {
        if (place_ != Place::vocab) return scalar(value);
        if (value >= entries_max)
            return refuse("model.vocab gives an id of " + std::to_string(value) + "; the limit is " +
                          std::to_string(entries_max - 1));
        if (!key_.empty()) vocab.emplace_back(undo_stand_ins(std::move(key_)), static_cast<Token>(value));
        return true;
    }

    bool string(string_t& value) {
        if (value.size() > 2 * piece_bytes_max + 1 && place_ != Place::elsewhere)
            return refuse("a merge of " + std::to_string(value.size()) + " bytes");
        if (place_ == Place::merges) return joined_merge(value);
        if (place_ != Place::pair) return scalar(std::move(value));
        if (pair_.size() == 2) return refuse("an entry of model.merges has more than two pieces");
        pair_.push_back(undo_stand_ins(std::move(value)));
        return true;
    }

    bool key(string_t& name) {
        key_ = std::move(name);
        if (place_ != Place::vocab) return true;
        if (key_.size() > 2 * piece_bytes_max) return refuse("a piece in model.vocab is longer than 64 KiB");
        if (vocab.size() == entries_max) return refuse("model.vocab has more than 4194304 entries");
        return true;
    }

    bool start_object(std::size_t) {
        if (place_ != Place::elsewhere) return refuse(std::string(name_of(place_)) + " holds an object");
        if (in_model_ && levels_.size() == 2 && key_ == "vocab") return enter(Place::vocab, has_vocab);
        if (levels_.size() == 1) in_model_ = levels_.back()->is_object() && key_ == "model";
        return open(Document::object());
    }
    bool end_object() {
        if (place_ == Place::vocab) return leave();
        return close();
    }

    bool start_array(std::size_t) {
        if (place_ == Place::merges) {
            place_ = Place::pair;
            pair_.clear();
            return true;
        }
        if (place_ != Place::elsewhere) return refuse(std::string(name_of(place_)) + " holds an array");
        if (in_model_ && levels_.size() == 2 && key_ == "merges") return enter(Place::merges, has_merges);
        return open(Document::array());
    }
    bool end_array() {
        if (place_ == Place::merges) return leave();
        if (place_ != Place::pair) return close();
        place_ = Place::merges;
        if (pair_.size() != 2) return refuse("an entry of model.merges has fewer than two pieces");
        return add_merge(std::move(pair_[0]), std::move(pair_[1]));
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
        const std::string_view what = error.what();  // "[json.exception...] parse error at ...: reason"
        const auto reason = what.find("] ");
        return refuse("not valid JSON: " + std::string(reason == what.npos ? what : what.substr(reason + 2)) +
                      " (byte " + std::to_string(position) + ")");
    }

    std::vector<std::pair<std::string, Token>> vocab;
    std::vector<std::pair<std::string, std::string>> merges;
    bool has_vocab = false, has_merges = false;
    Document document;
    std::string refusal;

private:
    enum class Place { elsewhere, vocab, merges, pair };

    static std::string_view name_of(Place place) {
        return place == Place::vocab ? "model.vocab" : "model.merges";
    }

    bool refuse(std::string why) {
        if (refusal.empty()) refusal = std::move(why);
        return false;
    }

    bool enter(Place place, bool& entered) {
        if (entered) return refuse(std::string(name_of(place)) + " stands twice");
        entered = true;
        place_ = place;
        return true;
    }
    bool leave() {
        place_ = Place::elsewhere;
        return true;
    }

    bool joined_merge(std::string_view text) {
        const std::size_t space = text.find(' ');
        if (space == 0 || space == text.npos || space + 1 == text.size() ||
            text.find(' ', space + 1) != text.npos)
            return refuse("an entry of model.merges is not two pieces with a space between: \"" +
                          std::string(text.substr(0, 100)) + "\"");
        return add_merge(undo_stand_ins(std::string(text.substr(0, space))),
                         undo_stand_ins(std::string(text.substr(space + 1))));
    }

    bool add_merge(std::string left, std::string right) {
        if (merges.size() == entries_max) return refuse("model.merges has more than 4194304 entries");
        merges.emplace_back(std::move(left), std::move(right));
        return true;
    }

    template <typename Value>
    bool scalar(Value&& value) {
        if (place_ != Place::elsewhere)
            return refuse(std::string(name_of(place_)) + " holds a value of the wrong kind");
        return put(Document(std::forward<Value>(value))) != nullptr;
    }

    /// Puts a value where the parser stands; null when it was refused.
    Document* put(Document value) {
        if (++values_ > entries_max / 4) {
            refuse("it has more values than any tokenizer needs");
            return nullptr;
        }
        if (levels_.empty()) return &(document = std::move(value));
        Document& parent = *levels_.back();
        if (parent.is_array()) {
            parent.push_back(std::move(value));
            return &parent.back();
        }
        const auto [place, is_new] = parent.get_ref<Document::object_t&>().emplace(key_, std::move(value));
        if (is_new) return &place->second;
        refuse("the key \"" + key_ + "\" stands twice in one object");
        return nullptr;
    }
    bool open(Document empty) {
        if (levels_.size() == depth_max) return refuse("it is nested too deeply");
        Document* place = put(std::move(empty));
        if (place == nullptr) return false;
        levels_.push_back(place);
        return true;
    }
    bool close() {
        levels_.pop_back();
        if (levels_.size() == 1) in_model_ = false;
        return true;
    }

    Place place_ = Place::elsewhere;
    bool in_model_ = false;
    std::string key_;
    std::vector<std::string> pair_;
    // From the root to where the parser stands. An element is only added to the last of them, so the
    // addresses of those before it do not move.
    std::vector<Document*> levels_;
    std::size_t values_ = 0;
};

std::unexpected<Error> not_understood(const std::string& field, const std::string& what) {
    return fail(Fault::unsupported, field + " " + what);
}

/// The member, or null: absent, null in the file, or `object` is none.
const Document* member(const Document& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const Document* value) {
    const auto* text = value != nullptr ? value->get_ptr<const std::string*>() : nullptr;
    return text != nullptr ? *text : std::string();
}

Result<bool> flag(const Document& object, const char* name, bool otherwise, const std::string& field) {
    const Document* value = member(object, name);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) return not_understood(field + "." + name, "is not true or false");
    return value->get<bool>();
}

/// `"type"` says what a step is; a Sequence holds steps under `list`. Calls `step(step, field)` for each.
template <typename Step>
Status each_step(const Document* value, const std::string& field, const char* list, const Step& step) {
    if (value == nullptr) return Done{};
    if (text_of(member(*value, "type")) != "Sequence") return step(*value, field);
    const Document* steps = member(*value, list);
    if (steps == nullptr || !steps->is_array()) return not_understood(field + "." + list, "is not an array");
    for (std::size_t i = 0; i < steps->size(); ++i)
        TRY(step((*steps)[i], field + "." + list + "[" + std::to_string(i) + "]"));
    return Done{};
}

Status read_normalizer(const Document& file, TokenizerDescription& description) {
    return each_step(member(file, "normalizer"), "normalizer", "normalizers",
                     [&](const Document& step, const std::string& field) -> Status {
                         const std::string type = text_of(member(step, "type"));
                         if (type != "NFC")
                             return not_understood(field + ".type", "is \"" + type + "\"; NFC is understood");
                         description.nfc = true;
                         return Done{};
                     });
}

Status read_split(const Document& step, const std::string& field, TokenizerDescription& description) {
    const Document* pattern = member(step, "pattern");
    const Document* regex = pattern != nullptr ? member(*pattern, "Regex") : nullptr;
    if (regex == nullptr || !regex->is_string())
        return not_understood(field + ".pattern", "is not {\"Regex\": \"...\"}");
    if (text_of(member(step, "behavior")) != "Isolated")
        return not_understood(field + ".behavior", "is not \"Isolated\"");
    if (TRY(flag(step, "invert", false, field))) return not_understood(field + ".invert", "is true");
    description.split_patterns.push_back(regex->get<std::string>());
    return Done{};
}

Status read_pre_tokenizer(const Document& file, TokenizerDescription& description) {
    const Document* decoder = member(file, "decoder");
    bool byte_level = decoder != nullptr && text_of(member(*decoder, "type")) == "ByteLevel";
    bool last = false;
    const auto read_step = [&](const Document& step, const std::string& field) -> Status {
        const std::string type = text_of(member(step, "type"));
        if (last) return not_understood(field, "comes after ByteLevel");
        if (type == "Split") return read_split(step, field, description);
        if (type != "ByteLevel")
            return not_understood(field + ".type", "is \"" + type + "\"; Split and ByteLevel are understood");
        if (TRY(flag(step, "add_prefix_space", true, field)))
            return not_understood(field + ".add_prefix_space", "is true");
        if (TRY(flag(step, "use_regex", true, field))) description.split_patterns.emplace_back(gpt2_pattern);
        byte_level = last = true;
        return Done{};
    };
    TRY(each_step(member(file, "pre_tokenizer"), "pre_tokenizer", "pretokenizers", read_step));
    if (!byte_level || (!last && description.split_patterns.empty()))
        return not_understood("pre_tokenizer",
                              "has no ByteLevel; only byte-level vocabularies are understood");
    return Done{};
}

Status read_decoder(const Document& file) {
    return each_step(member(file, "decoder"), "decoder", "decoders",
                     [](const Document& step, const std::string& field) -> Status {
                         const std::string type = text_of(member(step, "type"));
                         if (type == "ByteLevel") return Done{};
                         return not_understood(field + ".type",
                                               "is \"" + type + "\"; ByteLevel is understood");
                     });
}

/// The token that "TemplateProcessing" puts before a text, if any. Its id stands in a table of its own. (What
/// it puts behind a text ends it, which nobody wants of a prompt.)
Status read_first_token(const Document& file, TokenizerDescription& description) {
    return each_step(member(file, "post_processor"), "post_processor", "processors",
                     [&](const Document& step, const std::string& field) -> Status {
                         const Document* single = member(step, "single");
                         if (text_of(member(step, "type")) != "TemplateProcessing" || !single ||
                             !single->is_array() || single->empty())
                             return Done{};
                         const Document* special = member(single->front(), "SpecialToken");
                         if (!special) return Done{};
                         const std::string name = text_of(member(*special, "id"));
                         const Document* table = member(step, "special_tokens");
                         const Document* entry = table ? member(*table, name.c_str()) : nullptr;
                         const Document* ids = entry ? member(*entry, "ids") : nullptr;
                         const bool known = ids && ids->is_array() && ids->size() == 1 &&
                                            ids->front().is_number_unsigned() &&
                                            ids->front().get<std::uint64_t>() < entries_max;
                         if (!known)
                             return not_understood(field + ".special_tokens",
                                                   "has not one id for its first token");
                         description.first = ids->front().get<Token>();
                         return Done{};
                     });
}

Status read_added(const Document& file, TokenizerDescription& description) {
    const Document* list = member(file, "added_tokens");
    if (list == nullptr) return Done{};
    if (!list->is_array()) return not_understood("added_tokens", "is not an array");
    for (std::size_t i = 0; i < list->size(); ++i) {
        const Document& entry = (*list)[i];
        const std::string field = "added_tokens[" + std::to_string(i) + "]";
        const Document* id = member(entry, "id");
        AddedToken added;
        added.content = text_of(member(entry, "content"));
        if (added.content.empty() || added.content.size() > piece_bytes_max)
            return not_understood(field + ".content", "is not a text of 1 to 65536 bytes");
        if (id == nullptr || !id->is_number_unsigned() || id->get<std::uint64_t>() >= entries_max)
            return not_understood(field + ".id", "is not a number below " + std::to_string(entries_max));
        added.id = id->get<Token>();
        added.special = TRY(flag(entry, "special", false, field));
        added.left_strip = TRY(flag(entry, "lstrip", false, field));
        added.right_strip = TRY(flag(entry, "rstrip", false, field));
        added.single_word = TRY(flag(entry, "single_word", false, field));
        added.normalized = TRY(flag(entry, "normalized", !added.special, field));
        description.added.push_back(std::move(added));
    }
    return Done{};
}

Status read_model(const Document& file, TokenizerDescription& description) {
    const Document* model = member(file, "model");
    if (model == nullptr || !model->is_object()) return not_understood("model", "is not an object");
    const std::string type = member(*model, "type") != nullptr ? text_of(member(*model, "type")) : "BPE";
    if (type != "BPE") return not_understood("model.type", "is \"" + type + "\"; BPE is understood");
    const Document* dropout = member(*model, "dropout");
    if (dropout != nullptr && *dropout != 0) return not_understood("model.dropout", "is not null");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        const Document* value = member(*model, affix);
        if (value != nullptr && *value != Document(std::string()))
            return not_understood(std::string("model.") + affix, "is not empty");
    }
    if (TRY(flag(*model, "byte_fallback", false, "model")))
        return not_understood("model.byte_fallback", "is true");
    description.ignore_merges = TRY(flag(*model, "ignore_merges", false, "model"));
    return Done{};
}

/// Places each piece at its id. The list of pieces is as long as the largest id, so ids must not be sparse.
Status place_pieces(std::vector<std::pair<std::string, Token>>&& vocab, TokenizerDescription& description) {
    std::size_t end = 0;
    for (const auto& entry : vocab) end = std::max(end, static_cast<std::size_t>(entry.second) + 1);
    if (end > 4 * vocab.size() + 4096)
        return fail(Fault::corrupt_file, "model.vocab has " + std::to_string(vocab.size()) +
                                             " entries with ids up to " + std::to_string(end - 1));
    description.pieces.resize(end);
    for (auto& [piece, id] : vocab) {
        std::string& place = description.pieces[static_cast<std::size_t>(id)];
        if (!place.empty())
            return fail(Fault::corrupt_file,
                        "model.vocab gives the id " + std::to_string(id) + " to two pieces");
        place = std::move(piece);
    }
    return Done{};
}

}  // namespace

Result<TokenizerDescription> read_tokenizer_json(std::string_view text) {
    Reader reader;
    if (!Document::sax_parse(text, &reader)) return fail(Fault::corrupt_file, std::move(reader.refusal));
    const Document& file = reader.document;
    if (!file.is_object()) return fail(Fault::corrupt_file, "not a JSON object");
    TokenizerDescription description;
    TRY(read_model(file, description));
    if (!reader.has_vocab) return not_understood("model.vocab", "is not an object");
    if (!reader.has_merges) return not_understood("model.merges", "is not an array");
    TRY(read_normalizer(file, description));
    TRY(read_pre_tokenizer(file, description));
    TRY(read_decoder(file));
    TRY(read_first_token(file, description));
    TRY(read_added(file, description));
    TRY(place_pieces(std::move(reader.vocab), description));
    description.merges = std::move(reader.merges);
    return description;
}

}  // namespace kapitsa
