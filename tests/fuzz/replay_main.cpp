// Feeds files to a fuzz target, one after the other: folders give their files. This is how the corpus runs in
// every build, with every compiler, and how a found input is looked at in a debugger.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fs = std::filesystem;

int main(int arguments, char** argument) {
    std::vector<fs::path> files;
    for (int i = 1; i < arguments; ++i) {
        if (!fs::is_directory(argument[i])) {
            files.emplace_back(argument[i]);
            continue;
        }
        for (const fs::directory_entry& entry : fs::directory_iterator(argument[i]))
            if (entry.is_regular_file()) files.push_back(entry.path());
    }
    if (files.empty()) {
        std::fprintf(stderr, "usage: %s FILE|FOLDER...   (no file was found)\n", argument[0]);
        return 1;
    }
    std::ranges::sort(files);
    for (const fs::path& path : files) {
        std::ifstream file(path, std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        if (!file) {
            std::fprintf(stderr, "%s cannot be read\n", path.c_str());
            return 1;
        }
        std::printf("%s\n", path.c_str());  // before it runs: the last line names the file that crashed
        std::fflush(stdout);
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    }
    return 0;
}
