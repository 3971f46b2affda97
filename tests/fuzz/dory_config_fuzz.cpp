// Any bytes as the config.json of a looped model: what is accepted keeps to what the layers count on.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "formats/python_json.h"
#include "model/arch/dory/numbers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    using namespace kapitsa::looped;
    const std::string text = without_python_words({reinterpret_cast<const char*>(data), size});
    const auto json = parse_json(text, {.bytes = 1u << 16, .depth = 32, .members = 256});
    if (!json || !json->is_object()) return 0;
    const auto n = read_numbers(*json);
    if (!n) {
        CHECK(!n.error().message.empty());
        return 0;
    }
    CHECK(n->heads % n->kv_heads == 0 && n->head_width % 2 == 0 && n->init_std > 0);
    CHECK(n->layers.size() == n->blocks.layers() && n->blocks.recurrent > 0 && n->blocks.loops > 0);
    std::vector<bool> attends;
    for (const LayerNumbers& layer : n->layers) {
        CHECK(layer.profile < n->rope_thetas.size() && (!layer.windowed || n->window > 0));
        attends.push_back(layer.attends);
    }
    const Plan plan = make_plan(n->blocks, attends);
    CHECK(plan.places <= plan.steps.size() && plan.steps.size() <= 64u * 1024);
    return 0;
}
