// Flint: a decoder of layers with full attention and no rotation among layers with a window and rotation,
// sinks in all of them; the first layers dense, the others of experts beside one that all rows have.
// Everything this family knows of itself is in this file: its numbers, its tensors, its forward pass. Source:
// public descriptions of the model; no reference implementation could be read, so tests/golden checks it
// against arithmetic written from the same descriptions.

#include <algorithm>

#include "model/architecture.h"
#include "model/config_rules.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/norm.h"

namespace kapitsa {
namespace {

/// What no public source confirms, each to be looked at again with a published checkpoint at hand. The scale
/// of the scores (1 / sqrt of a head's width) is another such fact: all layers of layers/attention.h have it.
/// So is the correction of the choices among experts, which is taken where its tensor is
/// (`mlp.gate.e_score_correction_bias`).
namespace unconfirmed {

constexpr std::string_view experts = "num_experts", experts_per_token = "num_experts_per_tok",
                           epsilon = "rms_norm_eps", shared_inner = "shared_expert_intermediate_size";
constexpr const char* feed_forward = ".mlp";  // with the modules that layers/experts.h names
constexpr float router_epsilon = 1e-20f;      // keeps weights of nothing from being a division by zero

}  // namespace unconfirmed

struct LayerNumbers {
    bool windowed = false, rotates = false, dense = false;
};

struct Numbers {
    std::uint32_t vocabulary = 0, width = 0, context = 0;
    std::uint32_t inner = 0;  // of the dense layers
    std::uint32_t heads = 0, kv_heads = 0, head_width = 0;
    std::uint32_t window = 0;  // tokens that a windowed layer sees, the row itself among them
    double rope_theta = 0;
    float epsilon = 0;  // of every norm
    Experts::Numbers experts;
    std::vector<LayerNumbers> layers;
};

constexpr WholeRange widths{1, 1u << 20}, counts{1, 4096}, head_widths{1, 1024};

/// Fields that are read here, or say nothing of the arithmetic though their names sound like it.
constexpr std::string_view known[] = {
    "sliding_window",    "no_rope_layer_indices", "rope_theta",         "rms_norm_eps",
    "rope_parameters",   "partial_rotary_factor", "norm_topk_prob",     "hidden_act",
    "attention_dropout", "use_qk_norm",           "use_sliding_window", "scoring_func",
};

/// Settings that would change the arithmetic, and are known with one value alone.
Status refuse_variants(const ConfigReader& config, const ConfigReader& rope) {
    TRY(expect_text(config, "hidden_act", "silu"));
    TRY(expect_text(config, "scoring_func", "sigmoid"));
    TRY(expect_default_rope(rope));
    if (config.has("rope_scaling")) TRY(expect_default_rope(TRY(config.child("rope_scaling"))));
    for (const char* key : {"attention_bias", "mlp_bias", "tie_word_embeddings"})
        TRY(expect_flag(config, key, false));
    for (const char* key : {"norm_topk_prob", "use_qk_norm", "use_sliding_window"})
        TRY(expect_flag(config, key, true));
    for (const char* key : {"decoder_sparse_step", "n_group", "topk_group", "n_shared_experts"})
        TRY(expect_number(config, key, 1));
    TRY(expect_number(config, "partial_rotary_factor", 1));
    TRY(expect_number(rope, "partial_rotary_factor", 1));
    return refuse_unknown_arithmetic(config, known);
}

/// Layers by number, as the field lists them. @return [layers]
Result<std::vector<bool>> listed(const ConfigReader& config, std::string_view key, std::uint32_t layers) {
    std::vector<bool> all(layers);
    if (!config.has(key))
        return fail(Fault::invalid_input, config.field(key) + " is missing: it must list layers by number");
    for (const std::uint32_t layer : TRY(config.numbers(key, {0, layers - 1}))) all[layer] = true;
    return all;
}

/// `layer_types` alone says which layers have a window, `no_rope_layer_indices` alone which do not rotate.
Result<std::vector<LayerNumbers>> read_layers(const ConfigReader& config) {
    const std::uint32_t count = TRY(config.number("num_hidden_layers", {1, 1024}));
    const auto types = TRY(config.texts("layer_types"));
    const auto still = TRY(listed(config, "no_rope_layer_indices", count));
    const auto dense = TRY(listed(config, "mlp_only_layers", count));
    if (types.size() != count)
        return fail(Fault::invalid_input, config.field("layer_types") + " names " +
                                              std::to_string(types.size()) +
                                              " layers; num_hidden_layers says " + std::to_string(count));
    std::vector<LayerNumbers> layers;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (types[i] != "full_attention" && types[i] != "sliding_attention")
            return fail(Fault::unsupported, config.field("layer_types") + "[" + std::to_string(i) +
                                                "] is \"" + types[i] +
                                                "\"; it may be full_attention or sliding_attention");
        layers.push_back(
            {.windowed = types[i] == "sliding_attention", .rotates = !still[i], .dense = dense[i]});
    }
    return layers;
}

Result<Experts::Numbers> read_experts(const ConfigReader& config, std::uint32_t width) {
    Experts::Numbers n{.width = width,
                       .inner = TRY(config.number("moe_intermediate_size", widths)),
                       .router = {.experts = TRY(config.number(unconfirmed::experts, counts)),
                                  .picks = TRY(config.number(unconfirmed::experts_per_token, {1, 256})),
                                  .groups = 1,
                                  .groups_kept = 1,
                                  .scores = RouterNumbers::Scores::sigmoid,
                                  .normalise = true,
                                  .epsilon = unconfirmed::router_epsilon,
                                  .scale = 1},
                       .shared_inner = TRY(config.number(unconfirmed::shared_inner, widths)),
                       .shared_gated = false};
    if (n.router.picks > n.router.experts)
        return fail(Fault::invalid_input,
                    config.field(unconfirmed::experts_per_token) + " is more than there are experts");
    return n;
}

/// What the kernels count on.
Status check(const ConfigReader& config, const Numbers& n) {
    if (n.heads % n.kv_heads != 0 || n.heads / n.kv_heads > 64)
        return fail(Fault::unsupported,
                    config.field("num_attention_heads") +
                        " must be a multiple of num_key_value_heads, and at most 64 to each");
    if (n.head_width % 2 != 0)
        return fail(Fault::unsupported, config.field("head_dim") + " is odd; its halves rotate together");
    return Done{};
}

Result<Numbers> read(const Json& json) {
    const ConfigReader config(json, "config.json");
    const ConfigReader rope = TRY(config.child_or_self("rope_parameters"));
    TRY(refuse_variants(config, rope));
    Numbers n;
    n.vocabulary = TRY(config.number("vocab_size", {1, 1u << 24}));
    n.width = TRY(config.number("hidden_size", widths));
    n.context = TRY(config.number("max_position_embeddings", token_counts));
    n.heads = TRY(config.number("num_attention_heads", counts));
    n.kv_heads = TRY(config.number("num_key_value_heads", counts));
    n.head_width = TRY(config.number("head_dim", head_widths));
    n.rope_theta = TRY(rope.real("rope_theta", {1.0, 1e12}));
    n.epsilon = float(TRY(config.real(unconfirmed::epsilon, {0.0, 1.0})));
    n.layers = TRY(read_layers(config));
    if (std::ranges::any_of(n.layers, &LayerNumbers::windowed))
        n.window = TRY(config.number("sliding_window", token_counts));
    if (std::ranges::any_of(n.layers, &LayerNumbers::dense))
        n.inner = TRY(config.number("intermediate_size", widths));
    if (!std::ranges::all_of(n.layers, &LayerNumbers::dense)) n.experts = TRY(read_experts(config, n.width));
    TRY(check(config, n));
    return n;
}

class Flint final : public Model {
public:
    static Result<std::unique_ptr<Model>> load(const Json& config, Weights& weights) {
        auto model = std::make_unique<Flint>();
        const Numbers& n = model->numbers_ = TRY(read(config));
        model->embedding_ = TRY(weights.matrix("model.embed_tokens", n.vocabulary, n.width));
        model->rope_frequencies_ = TRY(rope_frequencies(weights, n.head_width, n.rope_theta));
        for (const LayerNumbers& own : n.layers) TRY(model->load_layer(weights, own));
        model->norm_ = TRY(shifted_norm(weights, "model.norm.weight", n.width, 0));
        model->head_ = TRY(weights.matrix("lm_head", n.vocabulary, n.width));
        TRY(weights.finish());
        model->describe();
        return std::unique_ptr<Model>(std::move(model));
    }

    const ModelShape& shape() const override { return shape_; }

    Tensor forward(const Batch& batch, const ModelMemory& memory, const Taps& taps,
                   Recorder& r) const override {
        const float epsilon = numbers_.epsilon;
        const Tensor x = r.embed(embedding_, batch);
        const Rope angles = rope(rope_frequencies_, batch, r);
        for (std::uint32_t i = 0; i < layers_.size(); ++i) {
            const auto scope = r.scope();
            const Layer& layer = layers_[i];
            layer.attention.add(r.rms_norm(x, layer.norm, epsilon), x,
                                numbers_.layers[i].rotates ? angles : Rope{}, batch, memory, r);
            layer.feed_forward.add(r.rms_norm(x, layer.post_norm, epsilon), x, r);
            taps.copy(i, x, r);
        }
        if (!taps.layers.empty()) taps.copy(shape_.layers, r.rms_norm(x, norm_, epsilon), r);
        return r.multiply(head_, r.rms_norm_of(x, batch.wanted_rows, batch.wanted, norm_, epsilon));
    }

    void commit(const CommitBatch&, const ModelMemory&, Recorder&) const override {}

private:
    struct Layer {
        Tensor norm, post_norm;
        Attention attention;
        FeedForward feed_forward;
    };

    Attention::Numbers attention_numbers(const LayerNumbers& own) const {
        return {.width = numbers_.width,
                .heads = numbers_.heads,
                .kv_heads = numbers_.kv_heads,
                .head_width = numbers_.head_width,
                .rotary = own.rotates ? numbers_.head_width : 0,
                .gated = false,
                .normed = true,
                .epsilon = numbers_.epsilon,
                .norm_shift = 0,
                .window = own.windowed ? numbers_.window : 0,
                .sinks = ".softmax_offset"};
    }

    Status load_layer(Weights& weights, const LayerNumbers& own) {
        const Numbers& n = numbers_;
        const auto place = std::uint32_t(layers_.size());
        const std::string block = "model.layers." + std::to_string(place);
        Layer layer;
        layer.norm = TRY(shifted_norm(weights, block + ".input_layernorm.weight", n.width, 0));
        layer.post_norm = TRY(shifted_norm(weights, block + ".post_attention_layernorm.weight", n.width, 0));
        layer.attention = TRY(Attention::load(weights, block + ".self_attn", attention_numbers(own), place));
        layer.feed_forward = TRY(FeedForward::load(
            weights, block + unconfirmed::feed_forward,
            {.width = n.width, .inner = n.inner, .experts = own.dense ? Experts::Numbers{} : n.experts}));
        layers_.push_back(layer);
        return Done{};
    }

    void describe() {
        shape_ = {.vocabulary = numbers_.vocabulary,
                  .width = numbers_.width,
                  .layers = std::uint32_t(layers_.size()),
                  .context = numbers_.context,
                  .attention = {},
                  .recurrent = {},
                  .decode_bytes = head_.bytes()};
        for (const Layer& layer : layers_) {
            shape_.attention.push_back(layer.attention.shape());
            shape_.decode_bytes += layer.attention.bytes() + layer.feed_forward.bytes();
        }
    }

    Numbers numbers_;
    ModelShape shape_;
    Weight embedding_, head_;
    Tensor norm_, rope_frequencies_;
    std::vector<Layer> layers_;
};

constexpr std::string_view model_types[] = {"flint"};

}  // namespace

extern const Architecture flint{.name = "flint", .model_types = model_types, .load = Flint::load};

}  // namespace kapitsa
