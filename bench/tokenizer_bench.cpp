// How fast is text turned into tokens? Usage: tokenizer_bench [--tokenizer FILE] [--repeat N] [FILE...]
// One JSON object a line: reading the tokenizer, then encoding the files (the project's own sources when none
// are named), each as one plain text; then decoding the tokens. Times are those of one core.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using namespace kapitsa;

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

/// Processor time of this thread: what one core needs, whatever else the machine does.
double seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<std::string> own_sources() {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(KAPITSA_SOURCE_DIR "/src"))
        if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h")
            paths.push_back(entry.path());
    return paths;
}

void print(const char* name, double best, std::size_t bytes, std::size_t tokens) {
    std::printf("{\"bench\": \"%s\", \"megabytes_per_second\": %.1f, \"bytes\": %zu, \"tokens\": %zu}\n",
                name, static_cast<double>(bytes) / best / 1e6, bytes, tokens);
}

}  // namespace

int main(int count, char** arguments) {
    std::string tokenizer_path = KAPITSA_SOURCE_DIR "/models/tiny/tokenizer.json";
    int repeats = 5;
    std::vector<std::string> paths;
    for (int i = 1; i < count; ++i) {
        const std::string_view argument = arguments[i];
        if (argument == "--tokenizer" && i + 1 < count)
            tokenizer_path = arguments[++i];
        else if (argument == "--repeat" && i + 1 < count)
            repeats = std::max(1, std::atoi(arguments[++i]));
        else
            paths.emplace_back(argument);
    }
    if (paths.empty()) paths = own_sources();

    const std::string file = contents(tokenizer_path);
    auto start = seconds();
    auto description = read_tokenizer_json(file);
    const double read = seconds() - start;
    if (!description) return std::fprintf(stderr, "%s\n", description.error().message.c_str()), 1;
    start = seconds();
    const auto tokenizer = Tokenizer::make(std::move(*description));
    const double made = seconds() - start;
    if (!tokenizer) return std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str()), 1;
    std::printf("{\"bench\": \"tokenizer_load\", \"read_ms\": %.1f, \"make_ms\": %.1f, \"bytes\": %zu}\n",
                read * 1e3, made * 1e3, file.size());

    std::vector<MarkedText> texts;
    std::size_t bytes = 0;
    for (const std::string& path : paths) {
        texts.push_back(MarkedText::all_plain(contents(path)));
        bytes += texts.back().text.size();
    }
    double best = 1e9, best_decoding = 1e9;
    std::size_t tokens = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        std::vector<std::vector<Token>> encoded;
        start = seconds();
        for (const MarkedText& text : texts) encoded.push_back(tokenizer->encode(text));
        best = std::min(best, seconds() - start);
        tokens = 0;
        std::size_t decoded = 0;
        start = seconds();
        for (const auto& some : encoded) {
            tokens += some.size();
            Detokenizer detokenizer(*tokenizer);
            for (const Token token : some) decoded += detokenizer.push(token).size();
            decoded += detokenizer.finish().size();
        }
        best_decoding = std::min(best_decoding, seconds() - start);
        if (decoded == 0 && bytes != 0) return 1;
    }
    print("tokenizer_encode", best, bytes, tokens);
    print("tokenizer_decode", best_decoding, bytes, tokens);
}
