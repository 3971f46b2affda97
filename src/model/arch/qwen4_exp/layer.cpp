#include "model/arch/qwen4_exp/layer.h"

namespace kapitsa::qwen4 {

Result<Layer> Layer::load(Weights& weights, const std::string& module, const Numbers& n,
                          const LayerKind& kind, Memories& memories) {
    Layer layer;
    const auto recurrent_place = [&] { return std::uint32_t(memories.recurrent.size()); };
    if (kind.ngram_module) {
        NgramLayer::Numbers own = n.ngrams;
        own.ngrams.module = *kind.ngram_module;
        layer.ngrams_ = TRY(NgramLayer::load(weights, module + ".ple", own, recurrent_place()));
        for (const RecurrentShape& shape : layer.ngrams_->shapes()) memories.recurrent.push_back(shape);
    }
    layer.around_mixer_ =
        TRY(HyperConnection::load(weights, module + ".attn_hyper_connection", n.streams, true));
    if (kind.attends) {
        const std::uint32_t place = memories.attention_before + std::uint32_t(memories.attention.size());
        const auto mixer = TRY(SparseAttention::load(weights, module + ".self_attn", n.attention, place));
        for (const AttentionShape& shape : mixer.shapes()) memories.attention.push_back(shape);
        layer.mixer_ = mixer;
    } else {
        const auto mixer =
            TRY(DeltaNet::load(weights, module + ".linear_attn", n.delta_net, recurrent_place()));
        memories.recurrent.push_back(mixer.shape());
        layer.mixer_ = mixer;
    }
    layer.around_experts_ =
        TRY(HyperConnection::load(weights, module + ".mlp_hyper_connection", n.streams, true));
    layer.experts_ = TRY(Experts::load(weights, module + ".mlp", n.experts));
    return layer;
}

std::uint64_t Layer::bytes() const {
    return (ngrams_ ? ngrams_->bytes() : 0) + around_mixer_.bytes() + around_experts_.bytes() +
           std::visit([](const auto& mixer) { return mixer.bytes(); }, mixer_) + experts_.bytes();
}

void Layer::add(Tensor x, Address picked, const Angles& angles, const Batch& batch, const ModelMemory& memory,
                Recorder& r) const {
    if (ngrams_) ngrams_->add(x, picked, batch, memory, r);
    {
        const auto scope = r.scope();
        const auto reading = around_mixer_.read(x, r);
        const Tensor said = zeros(x.rows, reading.h.columns, r);
        if (const auto* attention = std::get_if<SparseAttention>(&mixer_))
            attention->add(reading.h, said, angles.rope, angles.frequencies, batch, memory, r);
        else
            std::get<DeltaNet>(mixer_).add(reading.h, said, batch, memory, r);
        around_mixer_.write(said, reading, x, r);
    }
    const auto scope = r.scope();
    const auto reading = around_experts_.read(x, r);
    const Tensor said = zeros(x.rows, reading.h.columns, r);
    experts_.add(reading.h, said, r);
    around_experts_.write(said, reading, x, r);
}

void Layer::commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const {
    if (ngrams_) ngrams_->commit(batch, memory, r);
    if (const auto* recurrent = std::get_if<DeltaNet>(&mixer_)) recurrent->commit(batch, memory, r);
}

}  // namespace kapitsa::qwen4
