#include "cli/own_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace kapitsa {
namespace {

/// "" unless it is a path from the root: the specification has programs ignore others.
std::filesystem::path absolute_or_none(const char* path) {
    std::filesystem::path found = path ? path : "";
    return found.is_absolute() ? found : std::filesystem::path();
}

std::filesystem::path home() {
    if (const auto told = absolute_or_none(std::getenv("HOME")); !told.empty()) return told;
    const passwd* person = ::getpwuid(::getuid());
    return absolute_or_none(person ? person->pw_dir : nullptr);
}

}  // namespace

std::string own_folder(const char* variable, const char* under_home) {
    auto folder = absolute_or_none(std::getenv(variable));
    if (folder.empty() && !(folder = home()).empty()) folder /= under_home;
    return folder.empty() ? "" : (folder / "kapitsa").string();
}

}  // namespace kapitsa
