#include "model/layers/hyper_connection.h"

#include "kernels/elementwise.h"
#include "kernels/streams.h"
#include "model/layers/norm.h"

namespace kapitsa {

Result<HyperConnection> HyperConnection::load(Weights& weights, const std::string& module, const Numbers& n,
                                              bool writes) {
    HyperConnection connection;
    const std::uint32_t wide = n.streams * n.width;
    connection.numbers_ = n;
    connection.writes_ = writes;
    connection.norm_ = TRY(shifted_norm(weights, module + ".hc_norm.weight", wide, n.norm_shift));
    connection.down_ = TRY(weights.matrix(module + ".input_mix_weight_down", n.rank, wide));
    connection.up_ = TRY(weights.matrix(module + ".input_mix_weight_up", wide, n.rank));
    if (writes) connection.inject_ = TRY(weights.matrix(module + ".block_inject_weight", n.streams, wide));
    return connection;
}

HyperConnection::Reading HyperConnection::read(Tensor x, Recorder& r) const {
    const Numbers& n = numbers_;
    const Tensor normed = stream_norms(x, norm_, n.streams, n.epsilon, r);
    Tensor low, logits;
    if (writes_) {
        const auto both = r.multiply_all({&down_, &inject_}, normed);
        low = both[0];
        logits = both[1];
    } else {
        low = r.multiply(down_, normed);
    }
    r.launch(scaled_silu_f32, {in(low), out(low), low.rows * low.columns, 1.0f / float(n.streams)});
    const Tensor gate = r.multiply(up_, low), h = r.place(x.rows, n.width);
    r.launch(mix_streams_f32, {in(normed), in(gate), out(h), x.rows, n.streams, n.width});
    return {h, logits};
}

void HyperConnection::write(Tensor said, const Reading& reading, Tensor x, Recorder& r) const {
    const Numbers& n = numbers_;
    CHECK(writes_ && said.columns == n.width && x.columns == n.streams * n.width);
    r.launch(inject_streams_f32,
             {in(said), in(reading.logits), out(x), x.rows, n.streams, n.width, 1.0f / float(n.streams)});
}

Tensor stream_norms(Tensor x, Tensor weight, std::uint32_t streams, float epsilon, Recorder& r) {
    CHECK(weight.columns == x.columns && x.columns % streams == 0);
    const Tensor y = r.place(x.rows, x.columns);
    r.launch(grouped_rms_norm_f32,
             {in(x), in(weight), out(y), x.rows, streams, x.columns / streams, epsilon});
    return y;
}

void add_to_streams(Tensor y, Tensor x, Recorder& r) {
    CHECK(y.rows == x.rows && x.columns % y.columns == 0);
    r.launch(inject_streams_f32, {in(y), nullptr, out(x), x.rows, x.columns / y.columns, y.columns, 0});
}

Tensor zeros(std::uint32_t rows, std::uint32_t width, Recorder& r) {
    const Tensor y = r.place(rows, width);
    r.launch(zero_f32, {out(y), rows * width});
    return y;
}

}  // namespace kapitsa
