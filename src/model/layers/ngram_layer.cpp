#include "model/layers/ngram_layer.h"

#include "kernels/ngrams.h"
#include "kernels/short_conv.h"
#include "model/layers/hyper_connection.h"
#include "model/layers/norm.h"
#include "model/layers/short_conv.h"

namespace kapitsa {
namespace {

Result<Address> upload(Weights& weights, const std::vector<std::uint64_t>& values) {
    return weights.upload_bytes(std::as_bytes(std::span(values)));
}

void move_tails(Address u, Address rows, Address paths, std::uint32_t count, const RecurrentMemory& memory,
                Recorder& r) {
    r.launch(short_conv_commit_f32,
             {in<float>(u), in<uint>(rows), in<CommitPath>(paths), out<float>(memory.tails), count,
              memory.shape.channels, memory.shape.taps});
}

}  // namespace

Result<NgramLayer> NgramLayer::load(Weights& weights, const std::string& module, const Numbers& n,
                                    std::uint32_t place) {
    NgramLayer layer;
    const std::uint32_t wide = n.streams * n.width;
    layer.numbers_ = n;
    layer.place_ = place;
    TRY(layer.load_table(weights, module + ".ple_embedding"));
    layer.key_ = TRY(weights.matrix(module + ".key_proj", wide, n.embedding));
    layer.value_ = TRY(weights.matrix(module + ".value_proj", n.width, n.embedding));
    layer.key_norm_ = TRY(shifted_norm(weights, module + ".norm_key.weight", wide, n.norm_shift));
    layer.query_norm_ = TRY(shifted_norm(weights, module + ".norm_query.weight", wide, n.norm_shift));
    layer.conv_norm_ = TRY(shifted_norm(weights, module + ".norm_conv.weight", wide, n.norm_shift));
    layer.conv_ = TRY(conv_weight(weights, module + ".conv1d.weight", wide, n.taps));
    return layer;
}

Status NgramLayer::load_table(Weights& weights, const std::string& module) {
    const Numbers& n = numbers_;
    const auto hash = TRY(NgramHash::load(weights, module, n.ngrams));
    const std::uint32_t rows = TRY(hash.rows(n.ngrams.rows_multiple));
    if (rows % n.parts != 0)
        return fail(Fault::corrupt_file, "the " + std::to_string(rows) + " rows of " + module +
                                             " do not fall into " + std::to_string(n.parts) +
                                             " parts (split_ngram_parts) of one size");
    part_rows_ = rows / n.parts;
    const std::string table = module + ".ngram_embedding.", factor = table + "weight_scale";
    const bool nested = weights.has(table + "shards.0.weight"), factored = weights.has(factor);
    std::vector<Weight> parts;
    for (std::uint32_t part = 0; part < n.parts; ++part) {
        const std::string name = table + (nested ? "shards." : "shard_") + std::to_string(part);
        const std::uint32_t columns = n.embedding / n.ngrams.heads();
        parts.push_back(factored ? TRY(weights.fp8_by_factor(name, factor, part_rows_, columns))
                                 : TRY(weights.matrix(name, part_rows_, columns)));
    }
    table_ = TRY(weights.table(parts, n.ngrams.heads()));
    multipliers_ = TRY(upload(weights, hash.multipliers));
    sizes_ = TRY(upload(weights, hash.sizes));
    offsets_ = TRY(upload(weights, hash.offsets));
    return Done{};
}

std::array<RecurrentShape, 2> NgramLayer::shapes() const {
    const Numbers& n = numbers_;
    const std::uint32_t wide = n.streams * n.width;
    return {
        {{.state_floats = 0, .taps = n.ngrams.order, .channels = 1, .kept = {1}},
         {.state_floats = 0, .taps = (n.taps - 1) * n.ngrams.order + 1, .channels = wide, .kept = {wide}}}};
}

std::uint64_t NgramLayer::bytes() const {
    Weight picked = table_.one;  // as many rows of it as there are heads
    picked.rows = numbers_.ngrams.heads();
    return key_.bytes() + value_.bytes() + picked.bytes();
}

Address NgramLayer::pick(const Batch& batch, const ModelMemory& memory, Recorder& r) const {
    const NgramNumbers& n = numbers_.ngrams;
    const RecurrentMemory& tokens = memory.recurrent[place_];
    const Address picked = r.place(batch.rows, n.heads()).address;
    const auto scope = r.scope();
    const Tensor marks = r.place(batch.rows, 1);
    r.launch(ngram_rows,
             {in<int>(batch.tokens), in<int>(batch.parents), in<uint>(batch.sequences),
              in<float>(tokens.tails), in<ulong>(multipliers_), in<ulong>(sizes_), in<ulong>(offsets_),
              out(marks), out<uint>(picked), batch.rows, n.order, n.heads(), numbers_.reset});
    keep_drafts({marks}, batch, tokens, r);
    move_tails(marks.address, batch.commit_rows, batch.commit_paths, batch.commits, tokens, r);
    r.begin_lookup(table_, picked, batch.rows * n.heads());
    return picked;
}

/// The picked rows side by side, [rows, embedding].
Tensor NgramLayer::embed(const Batch& batch, Address picked, Recorder& r) const {
    const Tensor y = r.place(batch.rows, numbers_.embedding);
    r.lookup(table_, part_rows_, picked,
             {y.address, batch.rows * numbers_.ngrams.heads(), table_.one.columns});
    return y;
}

void NgramLayer::add(Tensor x, Address picked, const Batch& batch, const ModelMemory& memory,
                     Recorder& r) const {
    const auto scope = r.scope();
    const Numbers& n = numbers_;
    const RecurrentMemory& inputs = memory.recurrent[place_ + 1];
    const auto [key, value] = r.multiply_all({&key_, &value_}, embed(batch, picked, r));
    const Tensor normed_key = stream_norms(key, key_norm_, n.streams, n.epsilon, r);
    const Tensor query = stream_norms(x, query_norm_, n.streams, n.epsilon, r);
    const Tensor gated = r.place(batch.rows, x.columns);
    r.launch(gate_by_match_f32,
             {in(normed_key), in(query), in(value), out(gated), batch.rows, n.streams, n.width});
    const Tensor u = stream_norms(gated, conv_norm_, n.streams, n.epsilon, r);
    keep_drafts({u}, batch, inputs, r);
    r.launch(dilated_conv_f32,
             {in(u), in(conv_), in(gated), in<float>(inputs.tails), in<int>(batch.parents),
              in<uint>(batch.sequences), out(x), batch.rows, x.columns, n.taps, n.ngrams.order});
    move_tails(u.address, batch.commit_rows, batch.commit_paths, batch.commits, inputs, r);
}

void NgramLayer::commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const {
    for (const std::uint32_t place : {place_, place_ + 1}) {
        const RecurrentMemory& mine = memory.recurrent[place];
        move_tails(mine.kept[0], batch.kept_rows, batch.commit_paths, batch.paths, mine, r);
    }
}

}  // namespace kapitsa
