// Nemotron-H: Nano, Super, Lightning and what is cut from them. A row of layers, each of one kind, in an
// order that the file gives: Mamba-2, attention without positions, feed-forward, and choices among experts.
// numbers.h reads config.json, layer.h holds the tensors of a layer, draft_head.h the module that drafts.
// Source: the family's published configurations and reference implementation; checked by tests/golden.

#include "model/arch/nemotron_h/draft_head.h"
#include "model/architecture.h"
#include "model/layers/norm.h"

namespace kapitsa {
namespace {

using nemotron::DraftHead;
using nemotron::Layer;
using nemotron::LayerNumbers;
using nemotron::Memories;
using nemotron::Numbers;

/// Where the text model stands in the checkpoint: models that see or hear have it one level down.
struct Places {
    std::string root;   // "" or "language_model."
    std::string trunk;  // "backbone.", by other hands "model."
};

Result<Places> find_places(const Weights& weights) {
    for (const char* root : {"", "language_model."})
        for (const char* trunk : {"backbone.", "model."})
            if (weights.has(std::string(root) + trunk + "embeddings.weight"))
                return Places{root, std::string(root) + trunk};
    return fail(Fault::corrupt_file,
                "no embedding: there is no tensor backbone.embeddings.weight, nor model.embeddings.weight, "
                "nor language_model.backbone.embeddings.weight");
}

class NemotronH final : public Model {
public:
    static Result<std::unique_ptr<Model>> load(const Json& config, Weights& weights) {
        auto model = std::make_unique<NemotronH>();
        const Numbers& n = model->numbers_ = TRY(nemotron::read_numbers(config));
        const Places& places = model->places_ = TRY(find_places(weights));
        model->embedding_ = TRY(weights.matrix(places.trunk + "embeddings", n.vocabulary, n.width));
        Memories memories;
        for (const LayerNumbers& own : n.layers) {
            const std::string module = places.trunk + "layers." + std::to_string(model->layers_.size());
            model->layers_.push_back(TRY(Layer::load(weights, module, n, own, memories)));
        }
        model->norm_ = TRY(shifted_norm(weights, places.trunk + "norm_f.weight", n.width, 0));
        TRY(model->load_head(weights));
        // The drafting module, and the parts that see and hear, are models of their own.
        weights.set_aside(places.root + "mtp.");
        for (const char* part : {"vision_model.", "mlp1.", "sound_encoder.", "sound_projection."})
            weights.set_aside(part);
        TRY(weights.finish());
        model->describe(memories);
        return std::unique_ptr<Model>(std::move(model));
    }

    Result<std::unique_ptr<Drafter>> load_drafter(Weights& weights) const override {
        const std::string module = places_.root + "mtp";
        if (numbers_.draft_layers.empty() || !weights.has(module + ".layers.0.eh_proj.weight"))
            return nullptr;
        auto head = TRY(DraftHead::load(weights, module, numbers_, embedding_, head_,
                                        std::uint32_t(shape_.attention.size())));
        TRY(weights.finish(module + "."));
        return head;
    }

    const ModelShape& shape() const override { return shape_; }

    Tensor forward(const Batch& batch, const ModelMemory& memory, const Taps& taps,
                   Recorder& r) const override {
        const float epsilon = numbers_.epsilon;
        const Tensor x = r.embed(embedding_, batch);
        for (std::uint32_t i = 0; i < layers_.size(); ++i) {
            layers_[i].add(x, batch, memory, r);
            taps.copy(i, x, r);
        }
        if (!taps.layers.empty()) taps.copy(shape_.layers, r.rms_norm(x, norm_, epsilon), r);
        return r.multiply(head_, r.rms_norm_of(x, batch.wanted_rows, batch.wanted, norm_, epsilon));
    }

    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const override {
        for (const Layer& layer : layers_) layer.commit(batch, memory, r);
    }

private:
    Status load_head(Weights& weights) {
        const std::string name = places_.root + "lm_head";
        if (numbers_.tied) {
            head_ = embedding_;
            weights.set_aside(name + ".");  // some files hold it all the same
            return Done{};
        }
        head_ = TRY(weights.matrix(name, numbers_.vocabulary, numbers_.width));
        return Done{};
    }

    void describe(const Memories& memories) {
        shape_ = {.vocabulary = numbers_.vocabulary,
                  .width = numbers_.width,
                  .layers = std::uint32_t(layers_.size()),
                  .context = numbers_.context,
                  .attention = memories.attention,
                  .recurrent = memories.recurrent,
                  .decode_bytes = head_.bytes()};
        for (const Layer& layer : layers_) shape_.decode_bytes += layer.bytes();
    }

    Numbers numbers_;
    Places places_;
    ModelShape shape_;
    Weight embedding_, head_;
    Tensor norm_;
    std::vector<Layer> layers_;
};

// The first is what the published text models say. The others, of which only the class names are known for
// sure, are models whose text part is one of these.
constexpr std::string_view model_types[] = {"nemotron_h", "nemotron_h_puzzle", "NemotronH_Nano_VL_V2",
                                            "NemotronH_Nano_Omni_Reasoning_V3",
                                            "NemotronH_Omni_Reasoning_V3"};

}  // namespace

extern const Architecture nemotron_h{
    .name = "nemotron_h", .model_types = model_types, .load = NemotronH::load};

}  // namespace kapitsa
