#include "model/arch/qwen4_exp/draft_head.h"

#include "model/layers/norm.h"

namespace kapitsa::qwen4 {

Result<std::unique_ptr<Drafter>> DraftHead::load(Weights& weights, const std::string& module,
                                                 const Numbers& n, const Shared& shared,
                                                 std::uint32_t place) {
    auto head = std::make_unique<DraftHead>();
    const std::uint32_t width = n.width();
    const float shift = n.streams.norm_shift;
    head->numbers_ = n;
    head->shared_ = shared;
    head->token_norm_ = TRY(shifted_norm(weights, module + ".pre_fc_norm_embedding.weight", width, shift));
    head->stream_norm_ = TRY(shifted_norm(weights, module + ".pre_fc_norm_hidden.weight", n.wide(), shift));
    if (weights.has(module + ".fc.weight")) {
        const auto both = TRY(weights.side_by_side(module + ".fc", width, width));
        head->of_token_ = both[0];
        head->of_stream_ = both[1];
    } else {
        head->of_token_ = TRY(weights.matrix(module + ".fc_embedding", width, width));
        head->of_stream_ = TRY(weights.matrix(module + ".fc_hidden", width, width));
    }
    Memories memories{.attention_before = place};
    head->layer_ = TRY(Layer::load(weights, module + ".layers.0", n, {.attends = true}, memories));
    head->shapes_ = memories.attention;
    head->output_ = TRY(HyperConnection::load(weights, module + ".hyper_connection_mixer", n.streams, false));
    return std::unique_ptr<Drafter>(std::move(head));
}

Tensor DraftHead::forward(const Batch& batch, const Streams& before, Address streams,
                          const ModelMemory& memory, Recorder& r) const {
    const Numbers& n = numbers_;
    const Tensor token = r.rms_norm(r.embed(shared_.embedding, batch), token_norm_, n.epsilon);
    // One norm over all streams together, as most readers have it; some take each stream's own. Which one the
    // head was trained with is not confirmed: the other would cost accepted drafts and change no answer.
    const Tensor before_it = r.rms_norm_of(before.rows, before.picked, batch.rows, stream_norm_, n.epsilon);
    const std::uint32_t stream_rows = batch.rows * n.streams.streams;
    const Tensor each = r.multiply(of_stream_, {before_it.address, stream_rows, n.width()});
    const Tensor x{each.address, batch.rows, n.wide()};
    add_to_streams(r.multiply(of_token_, token), x, r);
    layer_.add(x, Address{}, {rope(shared_.rope_frequencies, batch, r), shared_.rope_frequencies}, batch,
               memory, r);
    r.copy_rows(x, Address{}, Address{}, batch.rows, streams);
    const Tensor wanted = r.place(batch.wanted, n.wide());
    r.copy_rows(x, batch.wanted_rows, Address{}, batch.wanted, wanted.address);
    return r.multiply(shared_.logits, output_.read(wanted, r).h);
}

}  // namespace kapitsa::qwen4
