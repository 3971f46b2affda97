#include "model/layers/mamba2.h"

#include "kernels/mamba2.h"
#include "kernels/rms_norm.h"
#include "model/layers/norm.h"

namespace kapitsa {

Result<Mamba2> Mamba2::load(Weights& weights, const std::string& module, const Numbers& n,
                            std::uint32_t place) {
    Mamba2 layer;
    layer.numbers_ = n;
    layer.place_ = place;
    const std::string joined = module + ".in_proj";
    const Weight in = TRY(weights.matrix(joined, n.inner() + n.channels() + n.heads, n.width));
    layer.gate_ = TRY(cut(in, joined, 0, n.inner()));
    layer.xbc_ = TRY(cut(in, joined, n.inner(), n.channels()));
    layer.step_ = TRY(cut(in, joined, n.inner() + n.channels(), n.heads));
    layer.out_ = TRY(weights.matrix(module + ".out_proj", n.width, n.inner()));
    layer.conv_ = TRY(ShortConvLayer::load(weights, module + ".conv1d", n.channels(), n.taps, n.conv_biased));
    const auto rate = TRY(weights.exponentials(module + ".A_log", {n.heads}));
    layer.rate_ = TRY(weights.upload(rate, 1, n.heads));
    layer.step_bias_ = TRY(shifted_norm(weights, module + ".dt_bias", n.heads, 0));
    layer.skip_ = TRY(shifted_norm(weights, module + ".D", n.heads, 0));
    layer.norm_ = TRY(shifted_norm(weights, module + ".norm.weight", n.inner(), 0));
    return layer;
}

RecurrentShape Mamba2::shape() const {
    const Numbers& n = numbers_;
    return {.state_floats = std::size_t(n.heads) * n.state_width * n.head_width,
            .taps = n.taps,
            .channels = n.channels(),
            .kept = {n.channels(), n.channels(), n.heads}};
}

void Mamba2::add(Tensor x, Tensor y, const Batch& batch, const ModelMemory& memory, Recorder& r) const {
    const auto scope = r.scope();
    const Numbers& n = numbers_;
    const RecurrentMemory& mine = memory.recurrent[place_];
    const auto [gate, u, raw_step] = r.multiply_all({&gate_, &xbc_, &step_}, x);

    const Tensor xbc = conv_.apply(u, batch, mine, r);
    const Tensor dt = r.place(batch.rows, n.heads);
    r.launch(mamba2_steps_f32,
             {in(raw_step), in(step_bias_), out(dt), batch.rows, n.heads, n.least_step, n.most_step});
    keep_drafts({u, xbc, dt}, batch, mine, r);

    const Tensor o = r.place(batch.rows, n.inner());
    r.launch(mamba2_chunks_f32, {in(xbc), in(dt), in(rate_), in(skip_), in<SegmentRows>(batch.by_chunks),
                                 out<float>(mine.states), out(o), batch.chunked, n.heads, n.groups,
                                 n.head_width, n.state_width});
    r.launch(mamba2_rows_f32, {in(xbc), in(dt), in(rate_), in(skip_), in<int>(batch.parents),
                               in<SegmentRows>(batch.by_rows), out<float>(mine.states), out(o), batch.stepped,
                               n.heads, n.groups, n.head_width, n.state_width});
    const Tensor normed = r.place(batch.rows, n.inner());
    r.launch(norm_of_gated_f32, {in(o), in(gate), in(norm_), out(normed), batch.rows, n.groups,
                                 n.inner() / n.groups, n.epsilon});
    r.multiply_add(out_, normed, y);
}

void Mamba2::commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const {
    const Numbers& n = numbers_;
    const RecurrentMemory& mine = memory.recurrent[place_];
    conv_.commit(batch, mine, r);
    r.launch(mamba2_commit_f32,
             {in<float>(mine.kept[1]), in<float>(mine.kept[2]), in(rate_), in(skip_),
              in<uint>(batch.kept_rows), in<CommitPath>(batch.commit_paths), out<float>(mine.states),
              batch.paths, n.heads, n.groups, n.head_width, n.state_width});
}

}  // namespace kapitsa
