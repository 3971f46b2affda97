// Any bytes as the config.json of a Qwen3.8-Flash-Next model: what is accepted keeps to what the layers count
// on.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "formats/python_json.h"
#include "kernels/ngrams.h"
#include "model/arch/qwen4_exp/numbers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    const std::string text = without_python_words({reinterpret_cast<const char*>(data), size});
    const auto json = parse_json(text, {.bytes = 1u << 16, .depth = 32, .members = 256});
    if (!json || !json->is_object()) return 0;
    const auto n = qwen4::read_numbers(*json);
    if (!n) {
        CHECK(!n.error().message.empty());
        return 0;
    }
    const auto& a = n->attention;
    CHECK(n->attends.size() == n->layers && n->wide() / n->streams.streams == n->width());
    CHECK(a.attention.heads % a.attention.kv_heads == 0 && a.attention.rotary % 2 == 0);
    CHECK(a.attention.rotary <= a.index_width && a.attention.rotary <= a.attention.head_width);
    CHECK(a.budget > 0 && a.ratio > 0 && a.most() >= a.ratio);
    CHECK(n->delta_net.shape.value_heads % n->delta_net.shape.key_heads == 0);
    CHECK(n->experts.router.picks <= n->experts.router.experts);
    CHECK(std::ranges::is_sorted(n->ngram_layers));
    for (const std::uint32_t layer : n->ngram_layers) {
        CHECK(layer < n->layers && !n->attends[layer]);
        CHECK(n->ngrams.embedding % n->ngrams.ngrams.heads() == 0 && n->ngrams.parts > 0);
        CHECK(n->ngrams.taps <= dilated_conv_most_taps && std::uint32_t(n->ngrams.reset) < n->vocabulary);
    }
    return 0;
}
