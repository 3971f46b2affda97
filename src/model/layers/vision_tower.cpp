#include "model/layers/vision_tower.h"

#include <algorithm>
#include <cmath>

#include "cache/page.h"
#include "kernels/all.h"

namespace kapitsa {
namespace {

constexpr std::uint32_t channels = 3;

}  // namespace

Result<VisionTower::Norm> VisionTower::load_norm(Weights& weights, const std::string& module,
                                                 std::uint32_t width) {
    Norm norm;
    norm.weight = TRY(weights.upload(TRY(weights.floats(module + ".weight", {width})), 1, width));
    norm.bias = TRY(weights.upload(TRY(weights.floats(module + ".bias", {width})), 1, width));
    return norm;
}

Result<VisionTower::Linear> VisionTower::load_linear(Weights& weights, const std::string& module,
                                                     std::uint32_t outputs, std::uint32_t inputs) {
    Linear linear;
    linear.weight = TRY(weights.matrix(module, outputs, inputs));
    linear.bias = TRY(weights.upload(TRY(weights.floats(module + ".bias", {outputs})), 1, outputs));
    return linear;
}

/// Some converters put the channels last, and some the frames into tensors of their own.
Result<std::vector<float>> VisionTower::read_patches(Weights& weights, const std::string& name) const {
    const Numbers& n = numbers_;
    const std::uint64_t frames = n.shape.frames, side = n.shape.side, area = side * side;
    const auto stored = weights.shape(name);
    const std::vector<std::uint64_t> whole{n.width, channels, frames, side, side},
        channels_last{n.width, frames, side, side, channels}, of_frame{n.width, channels, side, side};
    std::vector<float> values;
    const auto resize = [&] { values.resize(std::size_t(n.width) * channels * frames * area); };
    if (stored.size() == of_frame.size()) {
        for (std::size_t frame = 0; frame < frames; ++frame) {
            const auto from =
                TRY(weights.floats(frame == 0 ? name : name + "." + std::to_string(frame), of_frame));
            resize();  // once there is a frame of that size in the file
            for (std::size_t i = 0; i < std::size_t(n.width) * channels; ++i)
                std::copy_n(&from[i * area], area, &values[(i * frames + frame) * area]);
        }
        return values;
    }
    if (stored != channels_last || stored == whole) return weights.floats(name, whole);
    const auto from = TRY(weights.floats(name, channels_last));
    resize();
    const std::size_t places = frames * area;
    for (std::size_t row = 0; row < n.width; ++row)
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t i = 0; i < places; ++i)
                values[(row * channels + c) * places + i] = from[(row * places + i) * channels + c];
    return values;
}

/// A convolution whose steps are its width is a product.
Status VisionTower::load_patches(Weights& weights, const std::string& module) {
    const Numbers& n = numbers_;
    const auto values = TRY(read_patches(weights, module + ".patch_embed.proj.weight"));
    const std::uint32_t columns = channels * n.shape.frames * n.shape.side * n.shape.side;
    const Tensor matrix = TRY(weights.upload(values, n.width, columns));
    patches_.weight.rows = n.width;
    patches_.weight.columns = columns;
    patches_.weight.data = matrix.address;
    const auto bias = TRY(weights.floats(module + ".patch_embed.proj.bias", {n.width}));
    patches_.bias = TRY(weights.upload(bias, 1, n.width));
    const std::uint32_t table = n.table_side * n.table_side;
    const auto positions = TRY(weights.floats(module + ".pos_embed.weight", {table, n.width}));
    positions_ = TRY(weights.upload(positions, table, n.width));
    return Done{};
}

/// One matrix for all three, or one each.
Status VisionTower::load_qkv(Weights& weights, const std::string& module, std::uint32_t width, Layer& layer) {
    if (weights.has(module + ".q.weight")) {
        layer.q = TRY(load_linear(weights, module + ".q", width, width));
        layer.k = TRY(load_linear(weights, module + ".k", width, width));
        layer.v = TRY(load_linear(weights, module + ".v", width, width));
        return Done{};
    }
    const Linear qkv = TRY(load_linear(weights, module + ".qkv", 3 * width, width));
    std::uint32_t part = 0;
    for (Linear* linear : {&layer.q, &layer.k, &layer.v}) {
        const std::uint32_t first = width * part++;
        linear->weight = qkv.weight.slice(first, width);
        linear->bias = {qkv.bias.address + std::size_t(first) * sizeof(float), 1, width};
    }
    return Done{};
}

Status VisionTower::load_layer(Weights& weights, const std::string& module) {
    const Numbers& n = numbers_;
    Layer layer;
    layer.attention_norm = TRY(load_norm(weights, module + ".norm1", n.width));
    layer.mlp_norm = TRY(load_norm(weights, module + ".norm2", n.width));
    TRY(load_qkv(weights, module + ".attn", n.width, layer));
    layer.o = TRY(load_linear(weights, module + ".attn.proj", n.width, n.width));
    layer.up = TRY(load_linear(weights, module + ".mlp.linear_fc1", n.inner, n.width));
    layer.down = TRY(load_linear(weights, module + ".mlp.linear_fc2", n.width, n.inner));
    layers_.push_back(layer);
    return Done{};
}

/// A quarter of a head's width turns by the row, a quarter by the column, both with the same frequencies.
Status VisionTower::load_rotation(Weights& weights) {
    const std::uint32_t half = numbers_.head_width() / 2, quarter = half / 2;
    std::vector<float> frequencies(half);
    std::vector<std::uint32_t> axes(half);
    for (std::uint32_t i = 0; i < half; ++i) {
        frequencies[i] = 1.0f / std::pow(float(numbers_.rope_theta), float(2 * (i % quarter)) / float(half));
        axes[i] = i < quarter ? 1 : 2;
    }
    frequencies_ = TRY(weights.upload(frequencies, 1, half));
    axes_ = TRY(weights.upload(axes));
    return Done{};
}

Result<std::unique_ptr<Tower>> VisionTower::load(Weights& weights, const std::string& module,
                                                 const Numbers& n) {
    auto tower = std::make_unique<VisionTower>();
    tower->numbers_ = n;
    TRY(tower->load_patches(weights, module));
    for (std::uint32_t i = 0; i < n.layers; ++i)
        TRY(tower->load_layer(weights, module + ".blocks." + std::to_string(i)));
    const std::uint32_t merged = n.width * n.shape.block * n.shape.block;
    const std::string merger = module + ".merger";
    tower->merger_norm_ = TRY(load_norm(weights, merger + ".norm", n.width));
    tower->merger_up_ = TRY(load_linear(weights, merger + ".linear_fc1", merged, merged));
    tower->merger_down_ = TRY(load_linear(weights, merger + ".linear_fc2", n.shape.width, merged));
    TRY(tower->load_rotation(weights));
    TRY(weights.finish(module + "."));
    return std::unique_ptr<Tower>(std::move(tower));
}

Tensor VisionTower::norm(Tensor x, const Norm& norm, Recorder& r) const {
    const Tensor y = r.place(x.rows, x.columns);
    r.launch(layer_norm_f32,
             {in(x), in(norm.weight), in(norm.bias), out(y), x.rows, x.columns, numbers_.epsilon});
    return y;
}

Tensor VisionTower::apply(const Linear& linear, Tensor x, Recorder& r) {
    const Tensor y = r.multiply(linear.weight, x);
    r.launch(add_bias_f32, {in(linear.bias), out(y), y.rows, y.columns});
    return y;
}

void VisionTower::add(const Linear& linear, Tensor x, Tensor y, Recorder& r) {
    r.multiply_add(linear.weight, x, y);
    r.launch(add_bias_f32, {in(linear.bias), out(y), y.rows, y.columns});
}

/// The stream before the first layer.
Tensor VisionTower::embed(const PictureBatch& picture, Recorder& r) const {
    const Numbers& n = numbers_;
    const Tensor x = r.place(picture.patches(), n.width);
    const auto scope = r.scope();
    const Tensor values = r.place(picture.patches(), patches_.weight.columns);
    PatchPixels args{in<uchar>(picture.pixels),
                     out(values),
                     picture.patches(),
                     n.shape.frames,
                     n.shape.side * n.shape.side,
                     {},
                     {}};
    for (std::size_t c = 0; c < picture.scale.size(); ++c) {
        args.scale[c] = picture.scale[c];
        args.shift[c] = picture.shift[c];
    }
    r.launch(patch_pixels_f32, args);
    r.copy_rows(apply(patches_, values, r), Address{}, Address{}, x.rows, x.address);
    r.launch(grid_positions_f32,
             {in(positions_), out(x), n.table_side, picture.rows, picture.columns, n.shape.block, n.width});
    return x;
}

VisionTower::Angles VisionTower::angles(const PictureBatch& picture, Recorder& r) const {
    const std::uint32_t half = frequencies_.columns;
    const Angles angles{r.place(picture.patches(), half), r.place(picture.patches(), half)};
    r.launch(rope_table_f32, {in<uint>(picture.positions), in<uint>(axes_), in(frequencies_),
                              out(angles.cosines), out(angles.sines), picture.patches(), half});
    return angles;
}

/// Keys and values lie in pages of their own on the scratch stack, one behind the other.
Tensor VisionTower::attend(const Layer& layer, Tensor x, const Angles& angles, const PictureBatch& picture,
                           Recorder& r) const {
    const Numbers& n = numbers_;
    const std::uint32_t rows = x.rows, width = n.head_width(), paged = pages_for(rows) * page_tokens;
    const Tensor o = r.place(rows, n.width);
    const auto scope = r.scope();
    const Tensor q = apply(layer.q, x, r), k = apply(layer.k, x, r), v = apply(layer.v, x, r);
    const Tensor rotated = r.place(rows, n.width), keys = r.place(paged, n.width),
                 values = r.place(paged, n.width);
    r.launch(attend_inputs_f32, {.q = in(q),
                                 .k = in(k),
                                 .v = in(v),
                                 .q_norm = nullptr,
                                 .k_norm = nullptr,
                                 .cosines = in(angles.cosines),
                                 .sines = in(angles.sines),
                                 .slots = in<uint>(picture.places),
                                 .rotated = out(rotated),
                                 .keys = out(keys),
                                 .values = out(values),
                                 .rows = rows,
                                 .heads = n.heads,
                                 .kv_heads = n.heads,
                                 .width = width,
                                 .half = width / 2,
                                 .q_stride = width,
                                 .q_norm_stride = 0,
                                 .rotates_first = 0,
                                 .epsilon = 0});
    r.launch(attend_f32, {.q = in(rotated),
                          .gate = nullptr,
                          .sinks = nullptr,
                          .keys = in(keys),
                          .values = in(values),
                          .pages = in<uint>(picture.places),
                          .parents = nullptr,
                          .segments = in<SegmentRows>(picture.segment),
                          .o = out(o),
                          .count = 1,
                          .heads = n.heads,
                          .kv_heads = n.heads,
                          .width = width,
                          .gate_stride = 0,
                          .tiles = (rows + attend_tile_rows - 1) / attend_tile_rows,
                          .window = 0,
                          .whole = 1,
                          .scale = 1.0f / std::sqrt(float(width))});
    return o;
}

Tensor VisionTower::forward(const PictureBatch& picture, Recorder& r) const {
    const Numbers& n = numbers_;
    const Tensor x = embed(picture, r);
    const Angles turned = angles(picture, r);
    for (const Layer& layer : layers_) {
        const auto scope = r.scope();
        add(layer.o, attend(layer, norm(x, layer.attention_norm, r), turned, picture, r), x, r);
        const Tensor inner = apply(layer.up, norm(x, layer.mlp_norm, r), r);
        r.launch(gelu_tanh_f32, {in(inner), out(inner), inner.rows * inner.columns});
        add(layer.down, inner, x, r);
    }
    // The patches of a block stand together, so that joining them is another way of reading the same numbers.
    const std::uint32_t block = n.shape.block * n.shape.block;
    const Tensor normed = norm(x, merger_norm_, r);
    const Tensor joined{normed.address, x.rows / block, x.columns * block};
    const Tensor inner = apply(merger_up_, joined, r);
    r.launch(gelu_erf_f32, {in(inner), out(inner), inner.rows * inner.columns});
    return apply(merger_down_, inner, r);
}

}  // namespace kapitsa
