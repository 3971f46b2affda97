// Dory: a dense model on the unit sphere whose middle layers run several times over. numbers.h reads
// config.json, plan.h unrolls the loops, layer.h holds the tensors of a layer. Source: public implementations
// and the published list of tensors; tests/golden checks it against arithmetic written from the same.

#include "kernels/elementwise.h"
#include "kernels/unit_norm.h"
#include "model/arch/dory/layer.h"
#include "model/architecture.h"
#include "model/layers/attention.h"

namespace kapitsa {
namespace {

using looped::Layer;
using looped::LayerNumbers;
using looped::Numbers;
using looped::PlanStep;

class Dory final : public Model {
public:
    static Result<std::unique_ptr<Model>> load(const Json& config, Weights& weights) {
        auto model = std::make_unique<Dory>();
        const Numbers& n = model->numbers_ = TRY(looped::read_numbers(config));
        model->embedding_ = TRY(weights.matrix("backbone.embeddings", n.vocabulary, n.width));
        for (std::size_t i = 0; i < n.rope_thetas.size(); ++i)
            model->rope_frequencies_[i] = TRY(rope_frequencies(weights, n.head_width, n.rope_thetas[i]));
        for (const LayerNumbers& own : n.layers) {
            const std::string module = "backbone.layers." + std::to_string(model->layers_.size());
            model->layers_.push_back(TRY(Layer::load(weights, module, n, own)));
        }
        model->head_ = TRY(weights.matrix("lm_head", n.vocabulary, n.width));
        model->logit_scale_ = TRY(looped::changed_vector(weights, "lm_head.logit_scale", n.vocabulary,
                                                         [&](double value) { return value / n.init_std; }));
        TRY(weights.finish());
        model->describe();
        return std::unique_ptr<Model>(std::move(model));
    }

    const ModelShape& shape() const override { return shape_; }

    Tensor forward(const Batch& batch, const ModelMemory& memory, const Taps& taps,
                   Recorder& r) const override {
        const Tensor x = r.embed(embedding_, batch), input = r.place(batch.rows, numbers_.width);
        const Rope angles[] = {rope(rope_frequencies_[0], batch, r), rope(rope_frequencies_[1], batch, r)};
        const auto to_unit = [&](Address add) {
            r.launch(unit_of_sum_f32, {in(x), in<float>(add), out(x), x.rows, x.columns, looped::epsilon});
        };
        for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
            const PlanStep& step = plan_.steps[i];
            if (step.begins_block) r.copy_rows(x, Address{}, Address{}, x.rows, input.address);
            if (step.begins_loop) to_unit(input.address);
            layers_[step.layer].step(x, step.place, angles[numbers_.layers[step.layer].profile], batch,
                                     memory, r);
            taps.copy(i, x, r);
            if (step.ends_loop) to_unit(Address{});
        }
        taps.copy(shape_.layers, x, r);
        return logits(x, batch, r);
    }

    void commit(const CommitBatch&, const ModelMemory&, Recorder&) const override {}

private:
    /// There is no final norm.
    Tensor logits(Tensor x, const Batch& batch, Recorder& r) const {
        const Tensor wanted = r.place(batch.wanted, x.columns);
        r.copy_rows(x, batch.wanted_rows, Address{}, batch.wanted, wanted.address);
        const Tensor y = r.multiply(head_, wanted);
        r.launch(scale_columns_f32, {in(y), in(logit_scale_), out(y), y.rows, y.columns});
        return y;
    }

    /// A layer of this description is a step of the plan: the recurrent ones count once a loop.
    void describe() {
        const Numbers& n = numbers_;
        std::vector<bool> attends;
        for (const LayerNumbers& layer : n.layers) attends.push_back(layer.attends);
        plan_ = looped::make_plan(n.blocks, attends);
        shape_ = {.vocabulary = n.vocabulary,
                  .width = n.width,
                  .layers = std::uint32_t(plan_.steps.size()),
                  .context = n.context,
                  .attention = std::vector<AttentionShape>(plan_.places, {n.kv_heads, n.head_width}),
                  .recurrent = {},
                  .decode_bytes = head_.bytes()};
        for (const PlanStep& step : plan_.steps) shape_.decode_bytes += layers_[step.layer].bytes();
    }

    Numbers numbers_;
    looped::Plan plan_;
    ModelShape shape_;
    Weight embedding_, head_;
    Tensor logit_scale_;  // [1, vocabulary]
    Tensor rope_frequencies_[2];
    std::vector<Layer> layers_;
};

constexpr std::string_view model_types[] = {"dory"};

}  // namespace

extern const Architecture dory{.name = "dory", .model_types = model_types, .load = Dory::load};

}  // namespace kapitsa
