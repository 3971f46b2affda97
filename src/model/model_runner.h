// The Runner of a model on a backend: it owns the backend, the weights' place on it, the pools and the
// scratch stack. Everything is sized when it is made; a step allocates nothing on the device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "model/architecture.h"
#include "model/disk_memory.h"
#include "model/load.h"
#include "model/picture_writer.h"
#include "model/runner.h"
#include "model/step_writer.h"

namespace kapitsa {

class ModelRunner final : public Runner {
public:
    /// `taps`: see Taps. `checkpoint` must outlive the runner.
    static Result<std::unique_ptr<ModelRunner>> load(const Checkpoint& checkpoint,
                                                     const RunnerOptions& options,
                                                     std::vector<std::uint32_t> taps = {});

    const RunnerInfo& info() const override { return info_; }
    DiskCounters expert_counters() const override { return disk_->experts.counters(); }
    DiskCounters table_counters() const override { return disk_->rows.counters(); }
    Status reset(std::uint32_t sequence) override;
    Result<std::span<float>> forward(const Step& step) override;
    Result<std::vector<float>> see(const Picture& picture) override;
    Status commit(std::uint32_t sequence, std::span<const std::uint32_t> path) override;

    /// Whether there is a drafter: it was asked for, and the checkpoint holds one.
    bool drafts() const { return drafter_ != nullptr; }
    /// Where the drafter's rows find the stream before their token.
    enum class Streams {
        of_model,    // rows of the last forward
        of_drafter,  // rows of the last draft: a guess goes on from a guess
    };
    /// Computes the step with the drafter: row i has the stream of row from[i], and the token behind it. Its
    /// sequences are the model's, at their places and in their pages; what the drafter remembers of them is
    /// its own. @return [wanted, vocabulary] logits, valid until the next call
    Result<std::span<float>> draft(const Step& step, Streams streams, std::span<const std::uint32_t> from);
    /// The drafter's streams for the rows of the last draft. @return [rows, width]
    Result<std::vector<float>> drafted();

    Device device() const { return backend_->device(); }
    const ModelShape& shape() const { return model_->shape(); }

    /// The stream at tap `tap`, for the rows of the last step. @return [rows, width]
    Result<std::vector<float>> tapped(std::size_t tap);
    /// What recurrent layer `layer` (counted among its kind) remembers of a sequence.
    Result<std::vector<float>> recurrent_state(std::uint32_t sequence, std::uint32_t layer);
    Result<std::vector<float>> conv_tail(std::uint32_t sequence,
                                         std::uint32_t layer);  // [taps - 1, channels]
    /// A page of attention layer `layer`: its keys, and its values behind them. See kernels/attend.h.
    Result<std::vector<float>> attention_page(std::uint32_t layer, Page page);

private:
    Status allocate(const RunnerOptions& options);
    Status allocate_cache(const RunnerOptions& options);
    std::vector<AttentionShape> attention_shapes() const;  // of the model, then of the drafter
    Status allocate_drafter();
    Status load_tower(const Json& config, Weights& weights, std::uint32_t patches);
    Status rehearse();
    Status start_disk(const RunnerOptions& options);
    DiskMemory::Shares shares_that_fit() const;
    Status run();
    Result<std::span<float>> read_logits(Tensor logits);
    void check(const Step& step) const;

    std::unique_ptr<DiskMemory> disk_;
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Model> model_;
    std::unique_ptr<Drafter> drafter_;             // or null
    std::unique_ptr<Tower> tower_;                 // or null
    std::optional<PictureWriter> picture_writer_;  // where there is a tower
    RunnerInfo info_;
    ModelMemory memory_;
    Taps taps_;
    std::uint32_t wanted_rows_ = 0, kept_rows_ = 0;
    Address scratch_;
    std::size_t scratch_bytes_ = 0;
    std::unique_ptr<StepWriter> writer_;
    std::vector<float> logits_;  // [wanted, vocabulary], on the host
    std::uint32_t last_rows_ = 0;

    // Of the drafter:
    Address drafted_;  // [rows_per_step, width] its streams of the last draft
    Address picked_;   // uint [rows_per_step]
    std::uint32_t drafted_rows_ = 0;
    std::vector<DraftSegment> drafts_;  // of the last step, not yet committed
};

}  // namespace kapitsa
