#include "model/arch/nemotron_h/draft_head.h"

#include "model/layers/norm.h"

namespace kapitsa::nemotron {

Result<std::unique_ptr<Drafter>> DraftHead::load(Weights& weights, const std::string& module,
                                                 const Numbers& n, const Weight& embedding,
                                                 const Weight& logits, std::uint32_t first_attention) {
    auto head = std::make_unique<DraftHead>();
    head->epsilon_ = n.epsilon;
    head->embedding_ = embedding;
    head->logits_ = logits;
    head->memories_.first_attention = first_attention;
    const auto layer = [&](std::size_t i) { return module + ".layers." + std::to_string(i); };
    const auto norm = [&](const std::string& name) { return shifted_norm(weights, name, n.width, 0); };
    head->token_norm_ = TRY(norm(layer(0) + ".enorm.weight"));
    head->stream_norm_ = TRY(norm(layer(0) + ".hnorm.weight"));
    head->join_ = TRY(weights.matrix(layer(0) + ".eh_proj", n.width, 2 * n.width));
    for (std::size_t i = 0; i < n.draft_layers.size(); ++i) {
        if (n.draft_layers[i].kind == Kind::mamba)
            return fail(Fault::unsupported, layer(i) + " is recurrent: a drafter of that kind is not known");
        head->layers_.push_back(TRY(Layer::load(weights, layer(i), n, n.draft_layers[i], head->memories_)));
    }
    // An RMS norm as all others: not confirmed by a published checkpoint's results. Were it another kind of
    // norm, drafts would be refused more often, and no answer would be another.
    head->final_norm_ = TRY(norm(layer(n.draft_layers.size() - 1) + ".final_layernorm.weight"));
    return std::unique_ptr<Drafter>(std::move(head));
}

Tensor DraftHead::forward(const Batch& batch, const Streams& before, Address streams,
                          const ModelMemory& memory, Recorder& r) const {
    const Tensor token = r.rms_norm(r.embed(embedding_, batch), token_norm_, epsilon_);
    const Tensor stream = r.rms_norm_of(before.rows, before.picked, batch.rows, stream_norm_, epsilon_);
    const Tensor x = r.multiply(join_, r.join(token, stream));
    for (const Layer& layer : layers_) layer.add(x, batch, memory, r);
    r.copy_rows(r.rms_norm(x, final_norm_, epsilon_), Address{}, Address{}, batch.rows, streams);
    return r.multiply(logits_, r.rms_norm_of(x, batch.wanted_rows, batch.wanted, final_norm_, epsilon_));
}

}  // namespace kapitsa::nemotron
