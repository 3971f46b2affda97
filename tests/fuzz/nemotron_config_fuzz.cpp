// Any bytes as the config.json of a Nemotron-H model: what is accepted keeps to what the layers count on.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "formats/python_json.h"
#include "model/arch/nemotron_h/numbers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    using namespace kapitsa::nemotron;
    const std::string text = without_python_words({reinterpret_cast<const char*>(data), size});
    const auto json = parse_json(text, {.bytes = 1u << 16, .depth = 32, .members = 256});
    if (!json || !json->is_object()) return 0;
    const auto n = read_numbers(*json);
    if (!n) {
        CHECK(!n.error().message.empty());
        return 0;
    }
    CHECK(!n->layers.empty() && n->heads % n->kv_heads == 0 && n->least_step <= n->most_step);
    for (const auto* layers : {&n->layers, &n->draft_layers})
        for (const LayerNumbers& layer : *layers) {
            if (layer.kind == Kind::mamba) CHECK(n->mamba_heads % n->groups == 0 && n->taps >= 2);
            if (layer.kind != Kind::experts) continue;
            const ExpertNumbers& e = layer.experts;
            CHECK(e.experts % n->expert_groups == 0 && e.used > 0 && e.inner > 0 && e.shared_inner > 0);
            CHECK(e.used <= e.experts / n->expert_groups * n->groups_used);
        }
    return 0;
}
