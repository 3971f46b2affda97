#include "formats/python_json.h"

namespace kapitsa {
namespace {

/// Length of the word that `text` starts with, 0 if it starts with none.
std::size_t python_word(std::string_view text) {
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
        if (text.starts_with(word)) return word.size();
    return 0;
}

}  // namespace

std::string without_python_words(std::string_view text) {
    std::string json;
    json.reserve(text.size());
    bool in_string = false;
    for (std::size_t at = 0; at < text.size();) {
        if (const std::size_t word = in_string ? 0 : python_word(text.substr(at)); word != 0) {
            json += "null";
            at += word;
            continue;
        }
        if (text[at] == '"') in_string = !in_string;
        if (in_string && text[at] == '\\' && at + 1 < text.size()) json += text[at++];
        json += text[at++];
    }
    return json;
}

}  // namespace kapitsa
