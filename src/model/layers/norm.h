// The weight of a norm, as every layer wants it.
#pragma once

#include <string>

#include "model/weights.h"

namespace kapitsa {

/// A vector of f32 on the device, [1, columns], with `shift` added: 1 where the checkpoint stores w of (1 +
/// w).
Result<Tensor> shifted_norm(Weights& weights, const std::string& name, std::uint32_t columns, float shift);

}  // namespace kapitsa
