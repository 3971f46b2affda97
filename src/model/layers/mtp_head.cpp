#include "model/layers/mtp_head.h"

#include <algorithm>

#include "model/layers/norm.h"

namespace kapitsa {

Result<std::unique_ptr<Drafter>> MtpHead::load(Weights& weights, const std::string& module, const Numbers& n,
                                               std::uint32_t place) {
    auto head = std::make_unique<MtpHead>();
    const std::uint32_t width = n.attention.width;
    const std::string layer = module + ".layers.0";
    const auto norm = [&](const std::string& name) {
        return shifted_norm(weights, name + ".weight", width, n.attention.norm_shift);
    };
    head->numbers_ = n;
    head->token_norm_ = TRY(norm(module + ".pre_fc_norm_embedding"));
    head->stream_norm_ = TRY(norm(module + ".pre_fc_norm_hidden"));
    head->join_ = TRY(weights.matrix(module + ".fc", width, 2 * width));
    head->norm_ = TRY(norm(layer + ".input_layernorm"));
    head->attention_ = TRY(Attention::load(weights, layer + ".self_attn", n.attention, place));
    head->post_norm_ = TRY(norm(layer + ".post_attention_layernorm"));
    head->feed_forward_ = TRY(FeedForward::load(weights, layer + ".mlp", n.feed_forward));
    head->final_norm_ = TRY(norm(module + ".norm"));
    head->shapes_ = {head->attention_.shape()};
    return std::unique_ptr<Drafter>(std::move(head));
}

Tensor MtpHead::forward(const Batch& batch, const Streams& before, Address streams, const ModelMemory& memory,
                        Recorder& r) const {
    const Numbers& n = numbers_;
    const Tensor token = r.rms_norm(r.embed(n.embedding, batch), token_norm_, n.epsilon);
    const Tensor stream = r.rms_norm_of(before.rows, before.picked, batch.rows, stream_norm_, n.epsilon);
    const Tensor x = r.multiply(join_, r.join(token, stream));
    attention_.add(r.rms_norm(x, norm_, n.epsilon), x, rope(n.rope_frequencies, batch, r, n.rope_axes), batch,
                   memory, r);
    feed_forward_.add(r.rms_norm(x, post_norm_, n.epsilon), x, r);
    r.copy_rows(r.rms_norm(x, final_norm_, n.epsilon), Address{}, Address{}, batch.rows, streams);
    return r.multiply(n.logits, r.rms_norm_of(x, batch.wanted_rows, batch.wanted, final_norm_, n.epsilon));
}

Result<float> guess_norm_shift(Weights& weights, const std::string& module, std::uint32_t width) {
    for (const char* name : {".pre_fc_norm_embedding", ".pre_fc_norm_hidden", ".norm",
                             ".layers.0.input_layernorm", ".layers.0.post_attention_layernorm"}) {
        const auto values = TRY(weights.floats(module + name + ".weight", {width}));
        const auto negative = std::ranges::count_if(values, [](float value) { return value < 0; });
        if (std::size_t(negative) * 16 > values.size()) return 1.0f;
    }
    return 0.0f;
}

}  // namespace kapitsa
