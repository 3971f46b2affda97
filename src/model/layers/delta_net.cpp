#include "model/layers/delta_net.h"

#include "kernels/delta_net.h"
#include "kernels/rms_norm.h"
#include "model/layers/norm.h"

namespace kapitsa {
Result<DeltaNet> DeltaNet::load(Weights& weights, const std::string& module, const Numbers& n,
                                std::uint32_t place) {
    DeltaNet layer;
    const DeltaNetShape& s = n.shape;
    const std::uint32_t values = s.value_heads * s.value_width;
    layer.numbers_ = n;
    layer.place_ = place;
    layer.qkv_ = TRY(weights.matrix(module + ".in_proj_qkv", s.channels(), n.width));
    layer.z_ = TRY(weights.matrix(module + ".in_proj_z", values, n.width));
    layer.b_ = TRY(weights.matrix(module + ".in_proj_b", s.value_heads, n.width));
    layer.a_ = TRY(weights.matrix(module + ".in_proj_a", s.value_heads, n.width));
    layer.out_ = TRY(weights.matrix(module + ".out_proj", n.width, values));
    layer.conv_ = TRY(ShortConvLayer::load(weights, module + ".conv1d", s.channels(), s.taps, false));
    const auto rate = TRY(weights.exponentials(module + ".A_log", {s.value_heads}));
    layer.rate_ = TRY(weights.upload(rate, 1, s.value_heads));
    layer.dt_bias_ = TRY(shifted_norm(weights, module + ".dt_bias", s.value_heads, 0));
    layer.norm_ = TRY(
        shifted_norm(weights, module + ".norm.weight", s.value_width, 0));  // never stored as w of (1 + w)
    return layer;
}

RecurrentShape DeltaNet::shape() const {
    const DeltaNetShape& s = numbers_.shape;
    return {.state_floats = std::size_t(s.value_heads) * s.key_width * s.value_width,
            .taps = s.taps,
            .channels = s.channels(),
            .kept = {s.channels(), s.channels(), s.value_heads, s.value_heads}};
}

void DeltaNet::add(Tensor x, Tensor y, const Batch& batch, const ModelMemory& memory, Recorder& r) const {
    const auto scope = r.scope();
    const DeltaNetShape& s = numbers_.shape;
    const RecurrentMemory& mine = memory.recurrent[place_];
    const auto [u, z, b, a] = r.multiply_all({&qkv_, &z_, &b_, &a_}, x);

    const Tensor qkv = conv_.apply(u, batch, mine, r);
    const Tensor g = r.place(batch.rows, s.value_heads), beta = r.place(batch.rows, s.value_heads);
    r.launch(delta_inputs_f32, {out(qkv), in(a), in(b), in(rate_), in(dt_bias_), out(g), out(beta),
                                batch.rows, s.key_heads, s.value_heads, s.key_width, s.value_width});
    keep_drafts({u, qkv, g, beta}, batch, mine, r);

    const Tensor o = r.place(batch.rows, s.value_heads * s.value_width);
    r.launch(delta_chunks_f32,
             {in(qkv), in(g), in(beta), in<SegmentRows>(batch.by_chunks), out<float>(mine.states), out(o),
              batch.chunked, s.key_heads, s.value_heads, s.key_width, s.value_width, numbers_.tiled});
    r.launch(delta_rows_f32,
             {in(qkv), in(g), in(beta), in<int>(batch.parents), in<SegmentRows>(batch.by_rows),
              out<float>(mine.states), out(o), batch.stepped, s.key_heads, s.value_heads, s.key_width,
              s.value_width, batch.stepped_rows_max, numbers_.tiled});
    const Tensor gated = r.place(batch.rows, s.value_heads * s.value_width);
    r.launch(gated_rms_norm_f32, {in(o), in(z), in(norm_), out(gated), batch.rows, s.value_heads,
                                  s.value_width, numbers_.epsilon, numbers_.sigmoid_gate});
    r.multiply_add(out_, gated, y);
}

void DeltaNet::commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const {
    const DeltaNetShape& s = numbers_.shape;
    const RecurrentMemory& mine = memory.recurrent[place_];
    conv_.commit(batch, mine, r);
    r.launch(delta_commit_f32,
             {in<float>(mine.kept[1]), in<float>(mine.kept[2]), in<float>(mine.kept[3]),
              in<uint>(batch.kept_rows), in<CommitPath>(batch.commit_paths), out<float>(mine.states),
              batch.paths, s.key_heads, s.value_heads, s.key_width, s.value_width, numbers_.tiled});
}

}  // namespace kapitsa
