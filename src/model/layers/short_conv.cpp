#include "model/layers/short_conv.h"

#include "kernels/short_conv.h"
#include "model/layers/norm.h"

namespace kapitsa {

Result<Tensor> conv_weight(Weights& weights, const std::string& name, std::uint32_t channels,
                           std::uint32_t taps) {
    const bool converted = weights.shape(name) == std::vector<std::uint64_t>{channels, taps, 1};
    const auto stored = TRY(weights.floats(name, {channels, converted ? taps : 1, converted ? 1 : taps}));
    std::vector<float> turned(stored.size());
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t t = 0; t < taps; ++t) turned[t * channels + c] = stored[c * taps + t];
    return weights.upload(turned, taps, channels);
}

Result<ShortConvLayer> ShortConvLayer::load(Weights& weights, const std::string& module,
                                            std::uint32_t channels, std::uint32_t taps, bool biased) {
    ShortConvLayer layer;
    layer.weight_ = TRY(conv_weight(weights, module + ".weight", channels, taps));
    if (biased) layer.bias_ = TRY(shifted_norm(weights, module + ".bias", channels, 0));
    return layer;
}

Tensor ShortConvLayer::apply(Tensor u, const Batch& batch, const RecurrentMemory& memory, Recorder& r) const {
    const std::uint32_t taps = weight_.rows, channels = weight_.columns;
    const Tensor y = r.place(batch.rows, channels);
    r.launch(short_conv_f32, {in(u), in(weight_), in(bias_), in<float>(memory.tails), in<int>(batch.parents),
                              in<uint>(batch.sequences), out(y), batch.rows, channels, taps});
    r.launch(short_conv_commit_f32, {in(u), in<uint>(batch.commit_rows), in<CommitPath>(batch.commit_paths),
                                     out<float>(memory.tails), batch.commits, channels, taps});
    return y;
}

void ShortConvLayer::commit(const CommitBatch& batch, const RecurrentMemory& memory, Recorder& r) const {
    r.launch(short_conv_commit_f32,
             {in<float>(memory.kept[0]), in<uint>(batch.kept_rows), in<CommitPath>(batch.commit_paths),
              out<float>(memory.tails), batch.paths, weight_.columns, weight_.rows});
}

void keep_drafts(std::initializer_list<Tensor> inputs, const Batch& batch, const RecurrentMemory& memory,
                 Recorder& r) {
    CHECK(inputs.size() <= memory.kept.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor x = inputs.begin()[i];
        CHECK(x.columns == memory.shape.kept[i]);
        r.copy_rows(x, batch.kept_rows, batch.kept_at, batch.kept, memory.kept[i]);
    }
}

}  // namespace kapitsa
