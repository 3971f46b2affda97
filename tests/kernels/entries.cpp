#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/check.h"
#include "formats/regular_file.h"
#include "kernels/lab.h"

namespace kapitsa {
namespace {

constexpr const char* kernels = KAPITSA_SOURCE_DIR "/src/kernels/";

std::string text_of(const std::string& path) {
    const auto text = read_text_file(path, 1 << 20);
    CHECK(text.has_value());
    return *text;
}

/// The first group of every match.
std::vector<std::string> all_of(const std::string& text, const char* pattern) {
    const std::regex regex(pattern);
    std::vector<std::string> found;
    for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match)
        found.push_back((*match)[1]);
    return found;
}

/// Names of one header. A row of a macro has ##bits## or ##form in its name, one name for each use of the
/// macro.
std::vector<std::string> entries_of(const std::string& text) {
    static const std::regex row(R"(\bENTRY\((\w+?)(?:##(bits|form)(?:##)?)?(\w*),)");
    static const auto forms =
        all_of(text_of(std::string(kernels) + "blocks/forms.h"), R"(ROW\((\w+), \w+\) *\\?\n)");
    const auto bits = all_of(text, R"(AFFINE_ENTRIES\((\d)\))");
    std::vector<std::string> names;
    for (std::sregex_iterator match(text.begin(), text.end(), row), end; match != end; ++match) {
        const std::string front = (*match)[1], parameter = (*match)[2], back = (*match)[3];
        if (parameter.empty()) names.push_back(front + back);
        for (const std::string& use : parameter.empty()     ? std::vector<std::string>{}
                                      : parameter == "bits" ? bits
                                                            : forms)
            names.push_back(front + use + back);
    }
    return names;
}

}  // namespace

std::vector<std::string> entries_in_headers() {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(kernels)) {
        if (file.path().extension() != ".h") continue;
        const auto of_file = entries_of(text_of(file.path().string()));
        names.insert(names.end(), of_file.begin(), of_file.end());
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace kapitsa
