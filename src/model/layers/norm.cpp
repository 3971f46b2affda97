#include "model/layers/norm.h"

namespace kapitsa {

Result<Tensor> shifted_norm(Weights& weights, const std::string& name, std::uint32_t columns, float shift) {
    auto values = TRY(weights.floats(name, {columns}));
    for (float& value : values) value += shift;
    return weights.upload(values, 1, columns);
}

}  // namespace kapitsa
