// From a checkpoint to a runner: finds the architecture, takes the weights, sizes the pools.
#pragma once

#include <memory>
#include <string>

#include "formats/checkpoint.h"
#include "model/runner.h"

namespace kapitsa {

struct RunnerOptions {
    std::uint32_t context = 0;    // tokens a sequence may hold; 0: what the model was made for, at most 32768
    std::uint32_t sequences = 8;  // at once
    std::uint32_t threads = 0;    // 0: as many as there are cores
    std::string backend = "cpu";
    std::uint32_t rows_per_step = 512;
    std::uint32_t draft_rows = 16;  // of one sequence in one step; 64 at most
    std::uint32_t wanted_rows = 0;  // the most logits of one step; 0: enough for each sequence and its draft
    bool drafter = false;           // load the one that the checkpoint holds, if it does
    std::uint64_t cache_bytes = 0;  // for keys and values; 0: a third of the machine's memory
};

/// `checkpoint` must outlive the runner: weights are used where they are mapped.
Result<std::unique_ptr<Runner>> load_runner(const Checkpoint& checkpoint, const RunnerOptions& options = {});

}  // namespace kapitsa
