#include "model/architecture.h"

#include <algorithm>

#include "formats/config_reader.h"

namespace kapitsa {

// A row for each file in arch/, written by CMake.
#define ARCHITECTURE(name) extern const Architecture name;
#include "architectures.inc"
#undef ARCHITECTURE

namespace {

const Architecture* const architectures[] = {
#define ARCHITECTURE(name) &name,
#include "architectures.inc"
#undef ARCHITECTURE
};

}  // namespace

Result<const Architecture*> find_architecture(const Json& config) {
    const std::string type = TRY(ConfigReader(config, "config.json").text("model_type"));
    std::string known;
    for (const Architecture* architecture : architectures) {
        if (std::ranges::find(architecture->model_types, type) != architecture->model_types.end())
            return architecture;
        for (const std::string_view name : architecture->model_types)
            (known += known.empty() ? "" : ", ") += name;
    }
    return fail(Fault::unsupported, "config.json: model_type \"" + type +
                                        "\" is not an architecture that kapitsa runs; it runs: " + known);
}

}  // namespace kapitsa
