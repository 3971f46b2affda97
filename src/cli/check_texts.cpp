#include "cli/check_texts.h"

#include <algorithm>
#include <filesystem>

#include "cli/models.h"
#include "formats/regular_file.h"
#include "text/tokenizer.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t text_bytes_most = 16u << 20;
constexpr std::size_t texts_most = 1000;

}  // namespace

Result<std::vector<CheckText>> check_texts(const std::string& folder) {
    fs::path place = folder;
    if (folder.empty()) place = fs::path(TRY(built_in_model()).path).parent_path() / "texts";
    std::vector<CheckText> texts;
    std::error_code failed;
    for (fs::directory_iterator entry(place, failed), end; !failed && entry != end; entry.increment(failed)) {
        std::error_code unknown;
        const std::string name = entry->path().filename().string();
        if (name.starts_with('.') || !entry->is_regular_file(unknown)) continue;
        if (texts.size() == texts_most)
            return fail(Fault::invalid_input,
                        place.string() + " holds more than " + std::to_string(texts_most) + " files");
        texts.push_back({name, TRY(read_text_file(entry->path().string(), text_bytes_most))});
    }
    if (failed)
        return fail(Fault::invalid_input, place.string() + " cannot be read (" + failed.message() +
                                              "): --texts names a folder of text files");
    if (texts.empty()) return fail(Fault::invalid_input, place.string() + " holds no text files");
    std::ranges::sort(texts, {}, &CheckText::name);
    return texts;
}

Result<std::vector<TextTokens>> tokenized(const std::vector<CheckText>& texts, const Checkpoint& checkpoint,
                                          std::uint64_t most, std::uint32_t vocabulary) {
    const Tokenizer tokenizer = TRY(Tokenizer::make(TRY(checkpoint.tokenizer())));
    std::vector<TextTokens> all;
    for (const CheckText& text : texts) {
        const MarkedText marked = MarkedText::all_plain(text.text);
        TextTokens tokens{.name = text.name, .tokens = {}};
        if (const auto first = tokenizer.first()) tokens.tokens.push_back(*first);
        const auto encoded = tokenizer.encode(marked);
        tokens.tokens.insert(tokens.tokens.end(), encoded.begin(), encoded.end());
        if (tokens.tokens.size() > most) tokens.tokens.resize(most);
        for (const Token token : tokens.tokens)
            if (token < 0 || std::uint32_t(token) >= vocabulary)
                return fail(Fault::corrupt_file, checkpoint.path + ": its tokenizer gives the token " +
                                                     std::to_string(token) + ", and the model has only " +
                                                     std::to_string(vocabulary));
        if (tokens.tokens.size() > 1) all.push_back(std::move(tokens));
    }
    if (all.empty()) return fail(Fault::invalid_input, "the texts have no two tokens to read");
    return all;
}

Status expect_same_tokens(const std::vector<TextTokens>& of_one, const std::vector<TextTokens>& of_other,
                          std::string_view one, std::string_view other) {
    const bool same = std::ranges::equal(of_one, of_other, [](const TextTokens& a, const TextTokens& b) {
        return a.name == b.name && a.tokens == b.tokens;
    });
    if (same) return Done{};
    return fail(Fault::invalid_input, std::string(one) + " and " + std::string(other) +
                                          " cut the same text into different tokens: only models of one "
                                          "tokenizer can be compared");
}

}  // namespace kapitsa
