#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/check.h"
#include "formats/regular_file.h"
#include "kernels/lab.h"

namespace kapitsa {
namespace {

/// Names of one header. A row of a macro has ##bits## in its name, one name for each use of the macro.
std::vector<std::string> entries_of(const std::string& text) {
    static const std::regex row(R"(\bENTRY\((\w+)(##bits##)?(\w*),)"), use(R"(AFFINE_ENTRIES\((\d)\))");
    std::vector<std::string> names;
    for (std::sregex_iterator match(text.begin(), text.end(), row), end; match != end; ++match) {
        if (!(*match)[2].matched) {
            names.push_back((*match)[1]);
            continue;
        }
        for (std::sregex_iterator bits(text.begin(), text.end(), use); bits != end; ++bits)
            names.push_back((*match)[1].str() + (*bits)[1].str() + (*match)[3].str());
    }
    return names;
}

}  // namespace

std::vector<std::string> entries_in_headers() {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(KAPITSA_SOURCE_DIR "/src/kernels")) {
        if (file.path().extension() != ".h") continue;
        const auto text = read_text_file(file.path().string(), 1 << 20);
        CHECK(text.has_value());
        const auto of_file = entries_of(*text);
        names.insert(names.end(), of_file.begin(), of_file.end());
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace kapitsa
