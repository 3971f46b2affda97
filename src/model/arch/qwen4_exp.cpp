// Qwen3.8-Flash-Next: gated delta nets and sparse attention over residual streams side by side, experts in
// every layer, embeddings of n-grams in some, and the head that drafts. numbers.h reads config.json, layer.h
// holds the tensors of a layer, draft_head.h the head. Source: the family's reference implementation and
// config.json; checked by tests/golden.

#include "model/arch/qwen4_exp/draft_head.h"
#include "model/architecture.h"
#include "model/trunk.h"

namespace kapitsa {
namespace {

using qwen4::DraftHead;
using qwen4::Layer;
using qwen4::LayerKind;
using qwen4::Memories;
using qwen4::Numbers;

class Qwen4Exp final : public Model {
public:
    static Result<std::unique_ptr<Model>> load(const Json& config, Weights& weights) {
        auto model = std::make_unique<Qwen4Exp>();
        const Numbers& n = model->numbers_ = TRY(qwen4::read_numbers(config));
        const Trunk trunk = TRY(find_trunk(weights));
        model->embedding_ = TRY(weights.matrix(trunk.prefix + "embed_tokens", n.vocabulary, n.width()));
        model->rope_frequencies_ = TRY(rope_frequencies(weights, n.attention.attention.rotary, n.rope_theta));
        Memories memories;
        TRY(model->load_layers(weights, trunk.prefix, memories));
        // It makes the logits' input of the streams: there is no other norm behind the last layer.
        model->output_ =
            TRY(HyperConnection::load(weights, trunk.prefix + "hyper_connection_mixer", n.streams, false));
        if (n.tied)
            weights.set_aside(trunk.head + ".");  // some files hold it all the same
        else
            model->head_ = TRY(weights.matrix(trunk.head, n.vocabulary, n.width()));
        if (n.tied) model->head_ = model->embedding_;
        // The head for multi-token prediction and the vision tower are models of their own: text needs
        // neither.
        for (const char* part : {"mtp.", "language_model.mtp.", "model.visual.", "visual.", "vision_tower."})
            weights.set_aside(part);
        TRY(weights.finish());
        model->describe(memories);
        return std::unique_ptr<Model>(std::move(model));
    }

    Result<std::unique_ptr<Drafter>> load_drafter(Weights& weights) const override {
        for (const std::string module : {"mtp", "language_model.mtp"}) {
            const bool there =
                weights.has(module + ".fc_hidden.weight") || weights.has(module + ".fc.weight");
            if (!numbers_.drafts || !there) continue;
            auto head = TRY(DraftHead::load(weights, module, numbers_, {embedding_, head_, rope_frequencies_},
                                            std::uint32_t(shape_.attention.size())));
            TRY(weights.finish(module + "."));
            return head;
        }
        return nullptr;
    }

    const ModelShape& shape() const override { return shape_; }

    /// What drafters read are the streams behind the last layer, as they are.
    Tensor forward(const Batch& batch, const ModelMemory& memory, const Taps& taps,
                   Recorder& r) const override {
        std::vector<Address> picked;
        for (const Layer& layer : layers_) picked.push_back(layer.pick(batch, memory, r));
        const Tensor x = zeros(batch.rows, numbers_.wide(), r);
        add_to_streams(r.embed(embedding_, batch), x, r);
        const qwen4::Angles angles{rope(rope_frequencies_, batch, r), rope_frequencies_};
        for (std::uint32_t i = 0; i < numbers_.layers; ++i) {
            layers_[i].add(x, picked[i], angles, batch, memory, r);
            taps.copy(i, x, r);
        }
        taps.copy(numbers_.layers, x, r);
        const Tensor wanted = r.place(batch.wanted, numbers_.wide());
        r.copy_rows(x, batch.wanted_rows, Address{}, batch.wanted, wanted.address);
        return r.multiply(head_, output_.read(wanted, r).h);
    }

    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const override {
        for (const Layer& layer : layers_) layer.commit(batch, memory, r);
    }

private:
    Status load_layers(Weights& weights, const std::string& prefix, Memories& memories) {
        const Numbers& n = numbers_;
        std::uint32_t modules = 0;
        for (std::uint32_t i = 0; i < n.layers; ++i) {
            LayerKind kind{.attends = n.attends[i]};
            if (modules < n.ngram_layers.size() && n.ngram_layers[modules] == i)
                kind.ngram_module = modules++;
            layers_.push_back(
                TRY(Layer::load(weights, prefix + "layers." + std::to_string(i), n, kind, memories)));
        }
        return Done{};
    }

    void describe(const Memories& memories) {
        shape_ = {.vocabulary = numbers_.vocabulary,
                  .width = numbers_.wide(),
                  .layers = numbers_.layers,
                  .context = numbers_.context,
                  .attention = memories.attention,
                  .recurrent = memories.recurrent,
                  .decode_bytes = head_.bytes() + output_.bytes()};
        for (const Layer& layer : layers_) shape_.decode_bytes += layer.bytes();
    }

    Numbers numbers_;
    ModelShape shape_;
    Weight embedding_, head_;
    Tensor rope_frequencies_;
    std::vector<Layer> layers_;
    HyperConnection output_;
};

constexpr std::string_view model_types[] = {"qwen4_exp", "qwen4_exp_text"};

}  // namespace

extern const Architecture qwen4_exp{.name = "qwen4_exp", .model_types = model_types, .load = Qwen4Exp::load};

}  // namespace kapitsa
