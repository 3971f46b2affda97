#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kapitsa {

void check_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "kapitsa: a bug: %s does not hold at %s:%d\n", condition, file, line);
    std::abort();
}

}  // namespace kapitsa
