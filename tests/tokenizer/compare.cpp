// Compares the tokenizer with ids that another made. Usage: tokenizer_compare FOLDER CORPUS.jsonl
// FOLDER/cases has a name and "control" or "plain" a line; FOLDER/<name>.json is a tokenizer,
// FOLDER/<name>.ids.jsonl its ids for each line of the corpus, null where it has none. Prints the first
// difference of each case, and exits 1 when there was one.

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace {

using namespace kapitsa;

std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

Result<Tokenizer> load(const std::string& path) {
    return Tokenizer::make(TRY(read_tokenizer_json(contents(path))));
}

void print_ids(const char* whose, const std::vector<Token>& ids) {
    std::printf("  %s:", whose);
    for (const Token id : ids) std::printf(" %d", id);
    std::printf("\n");
}

/// Whether all ids of a case are equal.
bool compare(const std::string& folder, const std::string& name, bool plain,
             const std::vector<std::string>& corpus) {
    const auto tokenizer = load(folder + "/" + name + ".json");
    if (!tokenizer) return std::printf("%s: %s\n", name.c_str(), tokenizer.error().message.c_str()), false;
    const std::vector<std::string> ids = lines_of(folder + "/" + name + ".ids.jsonl");
    if (ids.size() != corpus.size())
        return std::printf("%s: %zu lines of ids for %zu strings\n", name.c_str(), ids.size(), corpus.size()),
               false;
    std::size_t differ = 0, tokens = 0, without = 0;
    for (std::size_t i = 0; i < corpus.size(); ++i) {
        const auto text = parse_json(corpus[i]), theirs = parse_json(ids[i]);
        if (theirs && theirs->is_null()) {
            ++without;
            continue;
        }
        if (!text || !theirs || !text->is_string() || !theirs->is_array())
            return std::printf("%s: line %zu is not what it should be\n", name.c_str(), i + 1), false;
        const auto& line = text->get_ref<const std::string&>();
        const auto expected = theirs->get<std::vector<Token>>();
        const auto actual =
            tokenizer->encode(plain ? MarkedText::all_plain(line) : MarkedText::all_control(line));
        tokens += actual.size();
        if (actual == expected) continue;
        if (differ++ > 0) continue;
        std::printf("%s: the first difference, line %zu: %s\n", name.c_str(), i + 1, corpus[i].c_str());
        print_ids("reference", expected);
        print_ids("kapitsa  ", actual);
    }
    std::printf("%s: %zu strings, %zu tokens, %zu differences\n", name.c_str(), corpus.size() - without,
                tokens, differ);
    // A handful may be left without a reference; more would be a comparison in name alone.
    return differ == 0 && without * 100 < corpus.size();
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return std::fprintf(stderr, "usage: tokenizer_compare FOLDER CORPUS.jsonl\n"), 2;
    const std::string folder = arguments[1];
    const std::vector<std::string> corpus = lines_of(arguments[2]);
    bool equal = corpus.size() >= 10'000;
    if (!equal) std::printf("the corpus has only %zu strings\n", corpus.size());
    for (const std::string& line : lines_of(folder + "/cases")) {
        const std::size_t space = line.find(' ');
        equal &= compare(folder, line.substr(0, space), line.substr(space + 1) == "plain", corpus);
    }
    return equal ? 0 : 1;
}
