#include "formats/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "formats/byte_level.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

constexpr std::uint64_t entries_max = 1u << 22, piece_bytes_max = 64u << 10;

/// What a name in tokenizer.ggml.pre stands for: the steps of the tokenizer.json it was made from.
struct PreTokenizer {
    std::string_view name, pattern;
    bool nfc, ignore_merges;
    bool starts_texts;  // where tokenizer.ggml.add_bos_token is not said
};

constexpr std::string_view letters_and_marks =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view letters_one_digit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view letters_three_digits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view words_by_case =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array pre_tokenizers{
    PreTokenizer{"qwen35", letters_and_marks, true, false, false},
    PreTokenizer{"qwen2", letters_one_digit, true, false, false},
    PreTokenizer{"llama-bpe", letters_three_digits, false, true, true},
    PreTokenizer{"llama3", letters_three_digits, false, true, true},
    PreTokenizer{"tekken", words_by_case, false, true, true},
    PreTokenizer{"pixtral", words_by_case, false, true, true},
    PreTokenizer{"gpt-2", gpt2_pattern, false, false, false},
};

/// tokenizer.ggml.token_type.
enum TokenType : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

std::string field(std::string_view key) { return "metadata " + in_quotes(key); }

Result<const PreTokenizer*> find_pre_tokenizer(const Gguf& gguf) {
    const std::string_view name = gguf.text("tokenizer.ggml.pre");
    const auto found = std::ranges::find(pre_tokenizers, name, &PreTokenizer::name);
    if (found != pre_tokenizers.end()) return &*found;
    std::string known;
    for (const PreTokenizer& pre : pre_tokenizers) (known += known.empty() ? "" : ", ") += pre.name;
    return fail(Fault::unsupported, field("tokenizer.ggml.pre") +
                                        (name.empty() ? " is missing" : " is " + in_quotes(name)) +
                                        "; text is cut into words in the ways of " + known);
}

Result<const GgufValue*> find_texts(const Gguf& gguf, std::string_view key) {
    const GgufValue* value = gguf.find(key);
    if (!value || !value->is_list || value->type != GgufType::text)
        return fail(Fault::corrupt_file, field(key) + " is missing, or not a list of texts");
    if (value->count > entries_max)
        return fail(Fault::unsupported, field(key) + " has " + std::to_string(value->count) +
                                            " entries; at most " + std::to_string(entries_max) + " are read");
    return value;
}

/// Whether the key is there as a bool: its value.
std::optional<bool> flag(const Gguf& gguf, std::string_view key) {
    const GgufValue* value = gguf.find(key);
    if (!value || value->is_list || value->type != GgufType::boolean) return std::nullopt;
    return value->bytes[0] != std::byte(0);
}

Status read_pieces(const Gguf& gguf, TokenizerDescription& description) {
    const auto texts = texts_of(*TRY(find_texts(gguf, "tokenizer.ggml.tokens")));
    const GgufValue* kinds = gguf.find("tokenizer.ggml.token_type");
    if (!kinds || kinds->count != texts.size())
        return fail(Fault::corrupt_file, field("tokenizer.ggml.token_type") +
                                             " is missing, or not as long as tokenizer.ggml.tokens");
    const auto types = TRY(whole_numbers_of(*kinds));
    description.pieces.resize(texts.size());
    for (std::size_t id = 0; id < texts.size(); ++id) {
        const std::string token = "tokenizer.ggml.tokens[" + std::to_string(id) + "]";
        if (texts[id].size() > piece_bytes_max)
            return fail(Fault::unsupported, token + " is longer than 64 KiB");
        switch (types[id]) {
            case normal:
            case byte: description.pieces[id] = undo_stand_ins(std::string(texts[id])); break;
            case unknown:
            case control:
            case user_defined:
                description.added.push_back({.id = static_cast<Token>(id),
                                             .content = std::string(texts[id]),
                                             .special = types[id] != user_defined});
                break;
            case unused: break;  // a row of the embedding without a text
            default:
                return fail(Fault::corrupt_file, "the type of " + token + " is " + std::to_string(types[id]) +
                                                     "; it must be from 1 to 6");
        }
    }
    return Done{};
}

Status read_merges(const Gguf& gguf, TokenizerDescription& description) {
    const auto texts = texts_of(*TRY(find_texts(gguf, "tokenizer.ggml.merges")));
    description.merges.reserve(texts.size());
    for (const std::string_view text : texts) {
        const std::size_t space = text.find(' ');
        if (text.size() > 2 * piece_bytes_max + 1 || space == 0 || space == text.npos ||
            space + 1 == text.size() || text.find(' ', space + 1) != text.npos)
            return fail(Fault::corrupt_file,
                        "tokenizer.ggml.merges[" + std::to_string(description.merges.size()) +
                            "] is not two pieces with a space between: " + in_quotes(text));
        description.merges.emplace_back(undo_stand_ins(std::string(text.substr(0, space))),
                                        undo_stand_ins(std::string(text.substr(space + 1))));
    }
    return Done{};
}

/// The number under a key that some files have; nothing where it is absent.
Result<std::optional<std::int64_t>> whole_number(const Gguf& gguf, const std::string& key) {
    const GgufValue* value = gguf.find(key);
    if (!value) return std::nullopt;
    GgufValue list = *value;
    list.is_list = true;  // of one: the elements lie alike
    const auto numbers = TRY(whole_numbers_of(list));
    if (numbers.size() != 1) return fail(Fault::corrupt_file, field(key) + " is a list");
    return numbers[0];
}

}  // namespace

Result<std::optional<Token>> gguf_token(const Gguf& gguf, std::string_view name) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    const auto id = TRY(whole_number(gguf, key));
    if (!id || *id == -1 || *id == UINT32_MAX) return std::nullopt;  // both are written for "none"
    const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
    const std::uint64_t count = tokens && tokens->is_list ? tokens->count : 0;
    if (*id < 0 || std::uint64_t(*id) >= std::min(count, entries_max))
        return fail(Fault::corrupt_file, field(key) + " is " + std::to_string(*id) + "; the vocabulary has " +
                                             std::to_string(count) + " tokens");
    return static_cast<Token>(*id);
}

std::string gguf_token_text(const Gguf& gguf, Token token) {
    const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
    if (!tokens || !tokens->is_list || tokens->type != GgufType::text) return "";
    const auto texts = texts_of(*tokens);
    const auto at = static_cast<std::size_t>(token);
    return token >= 0 && at < texts.size() ? std::string(texts[at]) : "";
}

Result<TokenizerDescription> read_gguf_tokenizer(const Gguf& gguf) {
    if (const auto model = gguf.text("tokenizer.ggml.model"); model != "gpt2")
        return fail(Fault::unsupported, field("tokenizer.ggml.model") +
                                            (model.empty() ? " is missing" : " is " + in_quotes(model)) +
                                            "; gpt2 (byte-level BPE) is read");
    const PreTokenizer& pre = *TRY(find_pre_tokenizer(gguf));
    TokenizerDescription description;
    TRY(read_pieces(gguf, description));
    TRY(read_merges(gguf, description));
    description.split_patterns.emplace_back(pre.pattern);
    description.nfc = pre.nfc;
    description.ignore_merges = pre.ignore_merges;
    if (flag(gguf, "tokenizer.ggml.add_bos_token").value_or(pre.starts_texts))
        description.first = TRY(gguf_token(gguf, "bos"));
    return description;
}

}  // namespace kapitsa
