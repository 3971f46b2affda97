// `kapitsa version`: what was built, with what, for what.
#include <cstdio>

#include "cli/command.h"

namespace kapitsa {
namespace {

#if defined(__clang__)
constexpr const char* compiler = "clang " __clang_version__;
#else
constexpr const char* compiler = "GCC " __VERSION__;
#endif

Status run() {
    std::printf("kapitsa %s (%s, %s)\n", KAPITSA_VERSION, KAPITSA_BUILD_TYPE, compiler);
    return Done{};
}

Action setup(Arguments&) { return run; }

}  // namespace

extern const Command version{"version", "Shows the version and how it was built",
                             "Examples:\n"
                             "  kapitsa version\n"
                             "  kapitsa --version\n",
                             setup};

}  // namespace kapitsa
