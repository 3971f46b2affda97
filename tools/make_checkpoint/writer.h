// Writes a checkpoint tensor by tensor: a folder with config.json, safetensors in shards, and a tokenizer's
// files. No more than a megabyte of weights is in memory at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "make_checkpoint/forms.h"

namespace kapitsa::random_checkpoint {

struct WriteOptions {
    std::string folder;     // must not be there yet
    std::string tokenizer;  // a model folder whose tokenizer is copied; "": none
    std::uint64_t seed = 1;
    std::uint64_t shard_bytes = 5'000'000'000;
    std::function<void(std::uint64_t done, std::uint64_t bytes)> progress = [](std::uint64_t, std::uint64_t) {
    };
};

/// @return the bytes of all tensors
Result<std::uint64_t> write_checkpoint(const Plan& plan, const Form& form, const WriteOptions& options);

}  // namespace kapitsa::random_checkpoint
