// The Runner of a model on a backend: it owns the backend, the weights' place on it, the pools and the
// scratch stack. Everything is sized when it is made; a step allocates nothing on the device.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/architecture.h"
#include "model/load.h"
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
    Status reset(std::uint32_t sequence) override;
    Result<std::span<float>> forward(const Step& step) override;
    Status commit(std::uint32_t sequence, std::span<const std::uint32_t> path) override;

    Device device() const { return backend_->device(); }
    const ModelShape& shape() const { return model_->shape(); }

    /// The stream at tap `tap`, for the rows of the last step. @return [rows, width]
    Result<std::vector<float>> tapped(std::size_t tap);
    /// What recurrent layer `layer` (counted among its kind) remembers of a sequence.
    Result<std::vector<float>> recurrent_state(std::uint32_t sequence, std::uint32_t layer);
    Result<std::vector<float>> conv_tail(std::uint32_t sequence,
                                         std::uint32_t layer);  // [taps - 1, channels]

private:
    Status allocate(const RunnerOptions& options);
    Status allocate_cache(const RunnerOptions& options);
    Status rehearse();
    void check(const Step& step) const;

    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Model> model_;
    RunnerInfo info_;
    ModelMemory memory_;
    Taps taps_;
    std::uint32_t wanted_rows_ = 0, kept_rows_ = 0;
    Address scratch_;
    std::size_t scratch_bytes_ = 0;
    std::unique_ptr<StepWriter> writer_;
    std::vector<float> logits_;  // [wanted, vocabulary], on the host
    std::uint32_t last_rows_ = 0;
    std::vector<DraftSegment> drafts_;  // of the last step, not yet committed
};

}  // namespace kapitsa
