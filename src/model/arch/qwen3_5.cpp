// Qwen3.5, 3.6 and 3.8, dense and with experts: three gated delta-net layers, then one full-attention
// layer, repeated; and the head that drafts for them. Everything this family knows of itself is in this file:
// its numbers, its tensors, its forward pass. Source: the family's reference implementation and config.json;
// checked by tests/golden.

#include "model/arch/qwen3_5/vision.h"
#include "model/architecture.h"
#include "model/config_rules.h"
#include "model/layers/attention.h"
#include "model/layers/delta_net.h"
#include "model/layers/feed_forward.h"
#include "model/layers/mtp_head.h"
#include "model/layers/norm.h"
#include "model/trunk.h"

namespace kapitsa {
namespace {

struct Numbers {
    std::uint32_t vocabulary, width, layers, context;
    FeedForward::Numbers feed_forward;
    std::uint32_t heads, kv_heads, head_width, rotary;
    DeltaNetShape delta_net;
    double rope_theta;
    std::vector<std::uint32_t> sections;  // frequencies that turn by time, row and column
    float epsilon;
    bool tied;    // the head is the embedding
    bool tiled;   // value heads of the delta net: see layers/delta_net.h
    bool drafts;  // the head for multi-token prediction is the known one, if its tensors are there
    std::vector<bool> attends;  // [layers] full attention, or the delta net
};

/// Settings that would change the arithmetic, and have one value in all releases.
Status refuse_variants(const ConfigReader& text, const ConfigReader& rope) {
    TRY(expect_text(text, "hidden_act", "silu"));
    TRY(expect_text(text, "output_gate_type", "swish"));
    TRY(expect_flag(text, "attention_bias", false));
    TRY(expect_flag(text, "attn_output_gate", true));
    TRY(expect_flag(rope, "mrope_interleaved", true));
    TRY(expect_default_rope(rope));
    if (text.has("rope_scaling")) TRY(expect_default_rope(TRY(text.child("rope_scaling"))));
    TRY(expect_flag(text, "norm_topk_prob", true));
    if (text.has("mlp_only_layers") && !TRY(text.numbers("mlp_only_layers", {0, 1024})).empty())
        return fail(Fault::unsupported, text.field("mlp_only_layers") +
                                            " names dense layers among those of experts; in this family all "
                                            "layers are known to be alike");
    return expect_number(text, "decoder_sparse_step", 1);
}

constexpr WholeRange widths{1, 1u << 20};
constexpr std::string_view attention[] = {"full_attention"};

Result<FeedForward::Numbers> read_feed_forward(const ConfigReader& file, const ConfigReader& text) {
    FeedForward::Numbers n{.width = TRY(text.number("hidden_size", widths)), .inner = 0, .experts = {}};
    const std::string type = TRY(file.text("model_type"));
    const bool routed = type.ends_with("_moe") || type.ends_with("_moe_text");
    if (TRY(text.number_or("num_experts", routed ? 256 : 0, {0, 4096})) == 0) {
        n.inner = TRY(text.number("intermediate_size", widths));
        return n;
    }
    Experts::Numbers& experts = n.experts;
    experts.width = n.width;
    experts.inner = TRY(text.number_or("moe_intermediate_size", 512, widths));
    experts.router.experts = TRY(text.number_or("num_experts", 256, {1, 4096}));
    experts.router.picks = TRY(text.number_or("num_experts_per_tok", 8, {1, 256}));
    experts.shared_inner = TRY(text.number_or("shared_expert_intermediate_size", 512, widths));
    experts.shared_gated = true;
    if (experts.router.picks > experts.router.experts)
        return fail(Fault::corrupt_file, text.field("num_experts_per_tok") + " is more than num_experts");
    return n;
}

/// What the kernels count on.
Status check(const ConfigReader& text, const Numbers& n) {
    const auto refuse = [&](std::string_view key, const std::string& why) -> Status {
        return fail(Fault::unsupported, text.field(key) + " " + why);
    };
    if (n.heads % n.kv_heads != 0)
        return refuse("num_attention_heads", "is no multiple of num_key_value_heads");
    if (n.heads / n.kv_heads > 64)
        return refuse("num_attention_heads", "is more than 64 to each key/value head");
    if (n.rotary % 2 != 0 || n.rotary > n.head_width || n.rotary == 0)
        return refuse("head_dim", "times partial_rotary_factor is " + std::to_string(n.rotary) +
                                      "; it must be even, and from 2 to head_dim");
    if (n.sections.size() < 3)
        return refuse("rope_parameters", "has a mrope_section of fewer than three numbers");
    if (n.delta_net.value_heads % n.delta_net.key_heads != 0)
        return refuse("linear_num_value_heads", "is no multiple of linear_num_key_heads");
    return Done{};
}

Result<Numbers> read(const Json& config) {
    const ConfigReader file(config, "config.json");
    const ConfigReader text = TRY(file.child_or_self("text_config"));
    const ConfigReader rope = text.has("rope_parameters") ? TRY(text.child("rope_parameters"))
                              : text.has("rope_scaling")  ? TRY(text.child("rope_scaling"))
                                                          : text;
    TRY(refuse_variants(text, rope));
    constexpr WholeRange heads{1, 4096}, head_widths{1, 1024};
    Numbers n{
        .vocabulary = TRY(text.number_or("vocab_size", 248320, {1, 1u << 24})),
        .width = TRY(text.number("hidden_size", widths)),
        .layers = TRY(text.number("num_hidden_layers", {1, 1024})),
        .context = TRY(text.number_or("max_position_embeddings", 32768, token_counts)),
        .feed_forward = TRY(read_feed_forward(file, text)),
        .heads = TRY(text.number("num_attention_heads", heads)),
        .kv_heads = TRY(text.number("num_key_value_heads", heads)),
        .head_width = TRY(text.number_or("head_dim", 256, head_widths)),
        .rotary = 0,
        .delta_net = {.key_heads = TRY(text.number("linear_num_key_heads", heads)),
                      .value_heads = TRY(text.number("linear_num_value_heads", heads)),
                      .key_width = TRY(text.number_or("linear_key_head_dim", 128, head_widths)),
                      .value_width = TRY(text.number_or("linear_value_head_dim", 128, head_widths)),
                      .taps = TRY(text.number_or("linear_conv_kernel_dim", 4, {2, 8}))},
        .rope_theta = TRY((rope.has("rope_theta") ? rope : text).real("rope_theta", {1.0, 1e12})),
        .sections = {},
        .epsilon = float(TRY(text.real_or("rms_norm_eps", 1e-6, {0.0, 1.0}))),
        .tied = TRY((text.has("tie_word_embeddings") ? text : file).flag_or("tie_word_embeddings", false)),
        .tiled = TRY(text.flag_or("linear_value_heads_tiled", false)),
        .drafts = TRY(text.number_or("mtp_num_hidden_layers", 0, {0, 1024})) == 1 &&
                  !TRY(text.flag_or("mtp_use_dedicated_embeddings", false)),
        .attends = {},
    };
    const double part = TRY(
        (rope.has("partial_rotary_factor") ? rope : text).real_or("partial_rotary_factor", 0.25, {0.0, 1.0}));
    n.rotary = std::uint32_t(n.head_width * part);
    n.sections = {11, 11, 10};
    if (rope.has("mrope_section")) n.sections = TRY(rope.numbers("mrope_section", {0, 1024}));
    n.attends = TRY(attending_layers(text, n.layers, attention));
    TRY(check(text, n));
    return n;
}

/// Which coordinate of a position each frequency takes: time, row, column, time, ... as far as the sections
/// go, then time.
std::vector<std::uint32_t> rope_axes(const Numbers& n) {
    std::vector<std::uint32_t> axes(n.rotary / 2);
    for (std::uint32_t i = 0; i < axes.size(); ++i)
        if (const std::uint32_t axis = i % 3; axis > 0 && i < 3 * n.sections[axis]) axes[i] = axis;
    return axes;
}

class Qwen35 final : public Model {
public:
    static Result<std::unique_ptr<Model>> load(const Json& config, Weights& weights) {
        auto model = std::make_unique<Qwen35>();
        const Numbers& n = model->numbers_ = TRY(read(config));
        const Trunk trunk = TRY(find_trunk(weights));
        const std::string& prefix = trunk.prefix;
        const float shift = TRY(find_norm_shift(weights, prefix, n));
        model->embedding_ = TRY(weights.matrix(prefix + "embed_tokens", n.vocabulary, n.width));
        model->rope_frequencies_ = TRY(rope_frequencies(weights, n.rotary, n.rope_theta));
        model->rope_axes_ = TRY(weights.upload(rope_axes(n)));
        for (std::uint32_t i = 0; i < n.layers; ++i) TRY(model->load_layer(weights, prefix, i, shift));
        model->norm_ = TRY(shifted_norm(weights, prefix + "norm.weight", n.width, shift));
        TRY(model->load_head(weights, trunk.head));
        // The head for multi-token prediction and the vision tower are models of their own: text needs
        // neither.
        for (const char* part : {"mtp.", "language_model.mtp.", "model.visual.", "visual.", "vision_tower."})
            weights.set_aside(part);
        TRY(weights.finish());
        model->norm_shift_ = shift;
        model->describe();
        return std::unique_ptr<Model>(std::move(model));
    }

    Result<std::unique_ptr<Drafter>> load_drafter(Weights& weights) const override {
        const Numbers& n = numbers_;
        for (const std::string module : {"mtp", "language_model.mtp"}) {
            if (!n.drafts || !weights.has(module + ".fc.weight")) continue;
            // Who converts a model may leave the head as it was.
            const float shift =
                norm_shift_ == 0 ? TRY(guess_norm_shift(weights, module, n.width)) : norm_shift_;
            auto head = TRY(MtpHead::load(weights, module,
                                          {.attention = attention_numbers(shift),
                                           .feed_forward = n.feed_forward,
                                           .epsilon = n.epsilon,
                                           .rope_frequencies = rope_frequencies_,
                                           .rope_axes = rope_axes_,
                                           .embedding = embedding_,
                                           .logits = head_},
                                          std::uint32_t(attention_.size())));
            TRY(weights.finish(module + "."));
            return head;
        }
        return nullptr;
    }

    Result<std::unique_ptr<Tower>> load_tower(const Json& config, Weights& weights) const override {
        return qwen3_5_vision::load(config, weights, numbers_.width);
    }

    const ModelShape& shape() const override { return shape_; }

    Tensor forward(const Batch& batch, const ModelMemory& memory, const Taps& taps,
                   Recorder& r) const override {
        const float epsilon = numbers_.epsilon;
        const Tensor x = r.embed(embedding_, batch);
        const Rope angles = rope(rope_frequencies_, batch, r, rope_axes_);
        for (std::uint32_t i = 0; i < numbers_.layers; ++i) {
            const auto scope = r.scope();
            const Layer& layer = layers_[i];
            const Tensor h = r.rms_norm(x, layer.norm, epsilon);
            if (numbers_.attends[i])
                attention_[layer.mixer].add(h, x, angles, batch, memory, r);
            else
                delta_net_[layer.mixer].add(h, x, batch, memory, r);
            layer.mlp.add(r.rms_norm(x, layer.post_norm, epsilon), x, r);
            taps.copy(i, x, r);
        }
        if (!taps.layers.empty()) taps.copy(numbers_.layers, r.rms_norm(x, norm_, epsilon), r);
        return r.multiply(head_, r.rms_norm_of(x, batch.wanted_rows, batch.wanted, norm_, epsilon));
    }

    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const override {
        for (const DeltaNet& layer : delta_net_) layer.commit(batch, memory, r);
    }

private:
    struct Layer {
        Tensor norm, post_norm;
        std::uint32_t mixer = 0;  // its number among those of its kind
        FeedForward mlp;
    };

    /// Hugging Face files store w of (1 + w), MLX files 1 + w. The convention of the norms is that of the
    /// shape of the convolutions, which MLX turns as well.
    static Result<float> find_norm_shift(const Weights& weights, const std::string& prefix,
                                         const Numbers& n) {
        for (std::uint32_t i = 0; i < n.layers; ++i) {
            const auto shape =
                weights.shape(prefix + "layers." + std::to_string(i) + ".linear_attn.conv1d.weight");
            if (shape.size() == 3) return shape[2] == 1 ? 0.0f : 1.0f;
        }
        return fail(Fault::corrupt_file,
                    "no layer has a linear_attn.conv1d.weight of three dimensions, whose shape "
                    "tells how the norms are stored");
    }

    Attention::Numbers attention_numbers(float shift) const {
        return {.width = numbers_.width,
                .heads = numbers_.heads,
                .kv_heads = numbers_.kv_heads,
                .head_width = numbers_.head_width,
                .rotary = numbers_.rotary,
                .epsilon = numbers_.epsilon,
                .norm_shift = shift};
    }

    Status load_layer(Weights& weights, const std::string& prefix, std::uint32_t i, float shift) {
        const Numbers& n = numbers_;
        const std::string block = prefix + "layers." + std::to_string(i);
        Layer layer;
        layer.norm = TRY(shifted_norm(weights, block + ".input_layernorm.weight", n.width, shift));
        layer.post_norm =
            TRY(shifted_norm(weights, block + ".post_attention_layernorm.weight", n.width, shift));
        if (n.attends[i]) {
            layer.mixer = std::uint32_t(attention_.size());
            attention_.push_back(
                TRY(Attention::load(weights, block + ".self_attn", attention_numbers(shift), layer.mixer)));
        } else {
            layer.mixer = std::uint32_t(delta_net_.size());
            delta_net_.push_back(TRY(DeltaNet::load(
                weights, block + ".linear_attn",
                {.width = n.width, .shape = n.delta_net, .epsilon = n.epsilon, .tiled = n.tiled},
                layer.mixer)));
        }
        layer.mlp = TRY(FeedForward::load(weights, block + ".mlp", n.feed_forward));
        layers_.push_back(layer);
        return Done{};
    }

    Status load_head(Weights& weights, const std::string& name) {
        if (numbers_.tied) {
            head_ = embedding_;
            weights.set_aside(name + ".");  // some files hold it all the same
            return Done{};
        }
        head_ = TRY(weights.matrix(name, numbers_.vocabulary, numbers_.width));
        return Done{};
    }

    void describe() {
        const Numbers& n = numbers_;
        shape_ = {.vocabulary = n.vocabulary,
                  .width = n.width,
                  .layers = n.layers,
                  .context = n.context,
                  .attention = {},
                  .recurrent = {},
                  .decode_bytes = head_.bytes()};
        for (const Attention& layer : attention_) {
            shape_.attention.push_back(layer.shape());
            shape_.decode_bytes += layer.bytes();
        }
        for (const DeltaNet& layer : delta_net_) {
            shape_.recurrent.push_back(layer.shape());
            shape_.decode_bytes += layer.bytes();
        }
        for (const Layer& layer : layers_) shape_.decode_bytes += layer.mlp.bytes();
    }

    Numbers numbers_{};
    float norm_shift_ = 0;  // 1 where the checkpoint stores w of (1 + w)
    ModelShape shape_;
    Weight embedding_, head_;
    Tensor norm_, rope_frequencies_;
    Address rope_axes_;
    std::vector<Layer> layers_;
    std::vector<Attention> attention_;
    std::vector<DeltaNet> delta_net_;
};

constexpr std::string_view model_types[] = {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"};

}  // namespace

extern const Architecture qwen3_5{.name = "qwen3_5", .model_types = model_types, .load = Qwen35::load};

}  // namespace kapitsa
