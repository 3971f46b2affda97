// From a checkpoint to a runner: finds the architecture, takes the weights, sizes the pools.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "formats/checkpoint.h"
#include "model/runner.h"

namespace kapitsa {

struct RunnerOptions {
    std::uint32_t context = 0;    // tokens a sequence may hold; 0: what the model was made for, at most 32768
    std::uint32_t sequences = 8;  // at once
    std::uint32_t threads = 0;    // 0: as many as there are cores
    std::string backend = default_backend();
    std::uint32_t rows_per_step = 512;
    std::uint32_t draft_rows = 16;  // of one sequence in one step; 64 at most
    std::uint32_t wanted_rows = 0;  // the most logits of one step; 0: enough for each sequence and its draft
    std::uint32_t picture_patches = 16384;  // the most of one picture; 0: leave the vision tower out
    bool drafter = false;                   // load the one that the checkpoint holds, if it does
    std::uint64_t cache_bytes = 0;          // for keys and values; 0: a third of the machine's memory
    // Memory for experts and rows of tables, the others staying in their files (model/disk_memory.h). 0: all
    // of them are used where they are mapped. Nothing: as 0 where the model fits the machine, else what the
    // rest leaves.
    std::optional<std::uint64_t> expert_bytes = {};
};

/// What a model takes of the machine's memory, by its shape.
struct ModelCost {
    std::uint64_t weight_bytes = 0;
    std::uint64_t token_bytes = 0;     // of context: keys and values
    std::uint64_t sequence_bytes = 0;  // of one at a time: recurrent states
    std::uint32_t context = 0;         // the most tokens it was made for
};

/// Takes every tensor by its name and shape, those of a vision tower among them, as loading does, but makes
/// no room to compute in.
Result<ModelCost> weigh_model(const Checkpoint& checkpoint);

/// `checkpoint` must outlive the runner: weights are used where they are mapped.
Result<std::unique_ptr<Runner>> load_runner(const Checkpoint& checkpoint, const RunnerOptions& options = {});

}  // namespace kapitsa
