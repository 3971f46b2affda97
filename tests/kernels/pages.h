// The pages of one attention layer, as kernels/attend.h lays them out.
#pragma once

#include <limits>
#include <vector>

#include "kernels/attend.h"

namespace kapitsa {

struct Pages {
    std::size_t kv_heads, width;
    std::vector<float> keys;    // [pages, kv_heads, width, 16]
    std::vector<float> values;  // [pages, kv_heads, 16, width]

    /// All NaN: who reads a token that nobody wrote shows it.
    Pages(std::size_t of_kv_heads, std::size_t of_width, std::size_t pages)
        : kv_heads(of_kv_heads),
          width(of_width),
          keys(pages * kv_heads * width * 16, std::numeric_limits<float>::quiet_NaN()),
          values(keys) {}

    float& key(std::size_t slot, std::size_t head, std::size_t i) {
        return keys[((slot / 16 * kv_heads + head) * width + i) * 16 + slot % 16];
    }
    float& value(std::size_t slot, std::size_t head, std::size_t i) {
        return values[((slot / 16 * kv_heads + head) * 16 + slot % 16) * width + i];
    }
    void copy_token(Pages& from, std::size_t from_slot, std::size_t to_slot) {
        for (std::size_t head = 0; head < kv_heads; ++head)
            for (std::size_t i = 0; i < width; ++i) {
                key(to_slot, head, i) = from.key(from_slot, head, i);
                value(to_slot, head, i) = from.value(from_slot, head, i);
            }
    }
};

}  // namespace kapitsa
