// Puts the steps of text/tokenizer.h together. A vocabulary is checked here once, whichever file it came
// from; text is trusted in nothing.
#include "text/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <unordered_set>

#include "base/check.h"
#include "base/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normal_form.h"
#include "text/piece_table.h"
#include "text/splitter.h"
#include "text/word_cache.h"

namespace kapitsa {
namespace {

constexpr std::size_t entries_max = 1u << 22;
constexpr std::size_t piece_bytes_max = 64u << 10;
constexpr std::size_t added_bytes_max = 4u << 10;  // looked for at every place of a text

std::string quoted(std::string_view content) {
    std::string text(1, '"');
    text += content.substr(0, valid_utf8_prefix(content.substr(0, 100)));
    text += '"';
    return text;
}

Status check_sizes(const TokenizerDescription& description) {
    if (description.pieces.size() > entries_max || description.merges.size() > entries_max ||
        description.added.size() > entries_max || description.split_patterns.size() > 16)
        return fail(Fault::unsupported,
                    "the tokenizer has more than 4194304 tokens or merges, or 16 regexes");
    for (const std::string& piece : description.pieces)
        if (piece.size() > piece_bytes_max)
            return fail(Fault::unsupported, "a token of the vocabulary is longer than 64 KiB");
    return Done{};
}

Status check_added(const TokenizerDescription& description) {
    std::unordered_set<std::string_view> contents;
    for (const AddedToken& added : description.added) {
        const std::string name = "the added token " + quoted(added.content);
        if (added.content.empty() || added.content.size() > added_bytes_max || !is_utf8(added.content))
            return fail(Fault::corrupt_file, name + " is not a UTF-8 text of 1 to 4096 bytes");
        if (added.id < 0 || static_cast<std::size_t>(added.id) >= entries_max)
            return fail(Fault::corrupt_file, name + " has the id " + std::to_string(added.id) +
                                                 ", which is not a number from 0 to 4194303");
        if (!contents.insert(added.content).second) return fail(Fault::corrupt_file, name + " stands twice");
        if (added.single_word)
            return fail(Fault::unsupported, name + " has single_word set, which is not supported");
    }
    return Done{};
}

/// `text` with U+FFFD for what is not UTF-8. A replacement is plain if one of its bytes was.
MarkedText repaired(const MarkedText& marked) {
    const std::string_view text = marked.text;
    MarkedText result;
    std::size_t at = 0;
    auto plain = marked.plain.begin();
    const auto is_plain_until = [&](std::size_t end) {  // whether a byte of [at, end) is plain
        while (plain != marked.plain.end() && plain->end <= at) ++plain;
        return plain != marked.plain.end() && plain->begin < end;
    };
    while (at < text.size()) {
        const std::size_t valid_end = at + valid_utf8_prefix(text.substr(at));
        while (at < valid_end) {
            const bool is_plain = is_plain_until(at + 1);
            std::size_t end = valid_end;
            if (plain != marked.plain.end()) end = std::min(end, is_plain ? plain->end : plain->begin);
            result.append(text.substr(at, end - at), is_plain);
            at = end;
        }
        if (at == text.size()) break;
        // The maximal subpart: the most bytes that a character could begin with, or one.
        std::size_t broken = 1;
        while (broken < 3 && at + broken < text.size() && complete_utf8(text.substr(at, broken + 1)).empty())
            ++broken;
        result.append("\uFFFD", is_plain_until(at + broken));
        at += broken;
    }
    return result;
}

/// Bytes [begin, end) of `marked`.
MarkedText slice(const MarkedText& marked, std::size_t begin, std::size_t end) {
    MarkedText part{marked.text.substr(begin, end - begin), {}};
    for (const MarkedText::Range& range : marked.plain) {
        const std::size_t first = std::max(range.begin, begin), last = std::min(range.end, end);
        if (first < last) part.plain.push_back({first - begin, last - begin});
    }
    return part;
}

bool well_marked(const MarkedText& marked) {
    std::size_t last = 0;
    for (const MarkedText::Range& range : marked.plain) {
        if (range.begin < last || range.begin >= range.end || range.end > marked.text.size()) return false;
        last = range.end;
    }
    return true;
}

}  // namespace

struct Tokenizer::Impl {
    std::vector<std::string> pieces;  // by token id, added tokens among them
    std::vector<AddedToken> added;
    std::vector<bool> special;  // by token id
    PieceTable table;           // of the vocabulary: `pieces` without the added tokens that are not in it
    Bpe bpe;
    std::vector<SplitPattern> patterns;
    AddedTokens raw_added, normal_added;  // looked for before NFC, and after it
    std::optional<Token> first;
    bool nfc, ignore_merges;
    /// By token of the vocabulary: whether merging its bytes gives that token. Found out as words come; every
    /// thread finds the same, so it does not matter whose answer stays.
    enum class Whole : std::uint8_t { unknown, yes, no };
    mutable std::vector<std::atomic<Whole>> whole;

    explicit Impl(TokenizerDescription&& description)
        : pieces(std::move(description.pieces)),
          added(std::move(description.added)),
          table(pieces),
          raw_added(added, false),
          normal_added(added, true),
          first(description.first),
          nfc(description.nfc),
          ignore_merges(description.ignore_merges),
          whole(pieces.size()) {}

    Status fill_table();
    Status place_added();
};

Status Tokenizer::Impl::fill_table() {
    for (std::size_t id = 0; id < pieces.size(); ++id)
        if (!pieces[id].empty() && !table.insert(static_cast<Token>(id)))
            return fail(Fault::corrupt_file,
                        "token " + std::to_string(id) + " has the text of another: " + quoted(pieces[id]));
    return Done{};
}

/// After the table is filled. `table` looks at `pieces` by index, so they may grow.
Status Tokenizer::Impl::place_added() {
    for (const AddedToken& token : added) {
        const auto id = static_cast<std::size_t>(token.id);
        if (id >= pieces.size()) pieces.resize(id + 1);
        const auto in_vocabulary = table.find(token.content);
        if (in_vocabulary && *in_vocabulary != token.id)
            return fail(Fault::corrupt_file, "the added token " + quoted(token.content) + " has the id " +
                                                 std::to_string(id) + "; the vocabulary gives it " +
                                                 std::to_string(*in_vocabulary));
        if (!pieces[id].empty() && pieces[id] != token.content)
            return fail(Fault::corrupt_file, "the added token " + quoted(token.content) + " has the id " +
                                                 std::to_string(id) + " of " + quoted(pieces[id]));
        pieces[id] = token.content;
        special.resize(pieces.size());
        special[id] = token.special;
    }
    special.resize(pieces.size());
    while (!pieces.empty() && pieces.back().empty()) pieces.pop_back();
    return Done{};
}

namespace {

/// What one call to encode holds.
template <typename Model>
class Encoding {
public:
    Encoding(const Model& model, std::size_t text_bytes, std::size_t most)
        : model_(model), most_(most), splitter_(model.patterns), cache_(text_bytes) {
        tokens.reserve(std::min(text_bytes / 3, most) + 8);
    }

    /// Like all below: whether there is room for more.
    bool text(const MarkedText& marked) {
        return model_.raw_added.cut(
            marked, [&](std::size_t begin, std::size_t end) { return stretch(marked, begin, end); },
            [&](Token id) { return added(id); });
    }

    std::vector<Token> tokens;

private:
    /// Text between added tokens; it may still hold those that are looked for in normalised text.
    bool stretch(const MarkedText& marked, std::size_t begin, std::size_t end) {
        const std::string_view view = std::string_view(marked.text).substr(begin, end - begin);
        const bool is_normal = !model_.nfc || nfc_prefix(view) == view.size();
        if (model_.normal_added.empty() && is_normal) return words(view);
        const MarkedText& part =
            kept_.emplace_back(is_normal ? slice(marked, begin, end) : to_nfc(slice(marked, begin, end)));
        return model_.normal_added.cut(
            part,
            [&](std::size_t first, std::size_t last) {
                return words(std::string_view(part.text).substr(first, last - first));
            },
            [&](Token id) { return added(id); });
    }

    bool added(Token id) {
        tokens.push_back(id);
        return tokens.size() <= most_;
    }

    bool words(std::string_view text) {
        return splitter_.split(text, [&](std::string_view word) {
            cache_.append(word, tokens, [&](std::string_view unknown) { merge(unknown); });
            return tokens.size() <= most_;
        });
    }

    /// Most words are one token, which the vocabulary knows faster than merging finds it.
    void merge(std::string_view word) {
        using Whole = Model::Whole;
        const auto id = model_.table.find(word);
        if (!id) return merge_long(word);
        auto& whole = model_.whole[static_cast<std::size_t>(*id)];
        const Whole known = model_.ignore_merges ? Whole::yes : whole.load(std::memory_order_relaxed);
        if (known == Whole::yes) return tokens.push_back(*id);
        const std::size_t first = tokens.size();
        model_.bpe.encode(word, tokens, scratch_);
        const bool is_whole = tokens.size() == first + 1 && tokens.back() == *id;
        if (known == Whole::unknown)
            whole.store(is_whole ? Whole::yes : Whole::no, std::memory_order_relaxed);
    }

    /// Of a word of megabytes the beginning may be too much already.
    void merge_long(std::string_view word) {
        const std::size_t first = tokens.size();
        for (std::size_t bytes = part_bytes; most_ < SIZE_MAX && bytes < word.size(); bytes *= 4) {
            model_.bpe.encode(word.substr(0, bytes), tokens, scratch_);
            if (tokens.size() > most_) return;
            tokens.resize(first);
        }
        model_.bpe.encode(word, tokens, scratch_);
    }

    static constexpr std::size_t part_bytes = 64u << 10;
    const Model& model_;
    const std::size_t most_;
    Splitter splitter_;
    WordCache cache_;
    std::deque<MarkedText> kept_;  // what the cache's words point into, where that is not the text itself
    Bpe::Scratch scratch_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::make(TokenizerDescription description) {
    TRY(check_sizes(description));
    TRY(check_added(description));
    std::vector<SplitPattern> patterns;
    for (const std::string& regex : description.split_patterns)
        patterns.push_back(TRY(SplitPattern::make(regex)));
    const auto merges = std::move(description.merges);
    auto impl = std::make_unique<Impl>(std::move(description));
    TRY(impl->fill_table());
    impl->bpe = TRY(Bpe::make(impl->table, merges));
    impl->patterns = std::move(patterns);
    TRY(impl->place_added());
    if (impl->first && (*impl->first < 0 || static_cast<std::size_t>(*impl->first) >= impl->pieces.size()))
        return fail(Fault::corrupt_file, "texts begin with token " + std::to_string(*impl->first) +
                                             ", and the vocabulary ends before it");
    return Tokenizer(std::move(impl));
}

std::vector<Token> Tokenizer::encode(const MarkedText& text, std::size_t most) const {
    CHECK(well_marked(text));
    Encoding encoding(*impl_, text.text.size(), most);
    if (is_utf8(text.text)) {
        encoding.text(text);
        return std::move(encoding.tokens);
    }
    const MarkedText whole = repaired(text);
    encoding.text(whole);
    return std::move(encoding.tokens);
}

std::string_view Tokenizer::piece(Token token) const {
    if (token < 0 || static_cast<std::size_t>(token) >= impl_->pieces.size()) return {};
    return impl_->pieces[static_cast<std::size_t>(token)];
}

bool Tokenizer::is_special(Token token) const {
    return token >= 0 && static_cast<std::size_t>(token) < impl_->special.size() &&
           impl_->special[static_cast<std::size_t>(token)];
}

std::optional<Token> Tokenizer::find(std::string_view piece) const {
    for (const AddedToken& added : impl_->added)
        if (added.content == piece) return added.id;
    return impl_->table.find(piece);
}

std::optional<Token> Tokenizer::first() const { return impl_->first; }

std::size_t Tokenizer::vocabulary() const { return impl_->pieces.size(); }

}  // namespace kapitsa
