#include "support/golden.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "formats/regular_file.h"

namespace kapitsa {
namespace {

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "a golden is not what the test expects: %s\n", why.c_str());
    std::abort();
}

template <typename T>
T must(Result<T> result) {
    if (!result) give_up(result.error().message);
    return std::move(*result);
}

std::string full_path(const std::string& path) {
    if (path.starts_with('/')) return path;
    return std::string(KAPITSA_SOURCE_DIR) + "/tests/data/goldens/" + path;
}

}  // namespace

Golden::Golden(const std::string& path) : file_(must(ArrayFile::open(full_path(path)))) {}

const TensorEntry& Golden::entry(std::string_view name) const { return *must(file_.entry(name)); }
Array<float> Golden::floats(std::string_view name) const { return must(file_.floats(name)); }
Array<double> Golden::doubles(std::string_view name) const { return must(file_.doubles(name)); }
Array<std::int64_t> Golden::ints(std::string_view name) const { return must(file_.ints(name)); }

Json read_golden_json(const std::string& path) {
    constexpr JsonLimits limits = {.bytes = 64u << 20, .depth = 64, .members = 1u << 16};
    return must(parse_json(must(read_text_file(full_path(path), limits.bytes)), limits));
}

std::optional<std::string> tiny_bf16_folder() {
    const char* folder = std::getenv("KAPITSA_TINY_BF16");
    if (!folder || !*folder) return std::nullopt;
    return folder;
}

}  // namespace kapitsa
