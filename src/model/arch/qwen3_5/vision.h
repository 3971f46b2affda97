// The vision tower of the family, as config.json describes it.
#pragma once

#include "base/json.h"
#include "model/tower.h"
#include "model/weights.h"

namespace kapitsa::qwen3_5_vision {

/// Null where the checkpoint has none. @param width of the text model's stream
Result<std::unique_ptr<Tower>> load(const Json& config, Weights& weights, std::uint32_t width);

}  // namespace kapitsa::qwen3_5_vision
