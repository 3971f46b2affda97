// What every attention layer has between its projections and its output: norms, rotation, the cache, and the
// softmax over what a row sees.
#pragma once

#include "model/memory.h"
#include "model/recorder.h"

namespace kapitsa {

/// Angles of the rotation of each row, made once a step for all layers that rotate alike.
struct Rope {
    Tensor cosines, sines;  // [rows, rotary / 2]
};

struct AttentionHeads {
    std::uint32_t heads = 0, kv_heads = 0, width = 0;
    std::uint32_t rotary = 0;  // dimensions of a head that rotate; 0: no position but the order
    std::uint32_t window = 0;  // the most tokens that a row sees, itself among them; 0: all
    std::uint32_t query_width =
        0;                       // columns of a head in q: its query, and its gate behind it if there is one
    bool rotates_first = false;  // norms are those of the rotated heads
    float epsilon = 0;           // of the norms
    Tensor q_norm, k_norm;       // [1, width], of queries perhaps [1, heads * width]; or no norms
    Tensor sinks;                // [1, heads]: a score that each head adds, without a value; or none

    bool gated() const { return query_width > width; }
    AttentionShape shape() const { return {kv_heads, width}; }

    /// Norms and rotates queries and keys, and puts keys and values into `memory`.
    /// @param q [rows, heads * query_width]   @param k, v [rows, kv_heads * width]
    /// @param rope may be empty where nothing rotates   @return [rows, heads * width]: queries
    Tensor prepare(Tensor q, Tensor k, Tensor v, const Rope& rope, const Batch& batch,
                   const AttentionMemory& memory, Recorder& r) const;
    /// The same, and attention over all that a row sees. @return [rows, heads * width]
    Tensor attend(Tensor q, Tensor k, Tensor v, const Rope& rope, const Batch& batch,
                  const AttentionMemory& memory, Recorder& r) const;
};

}  // namespace kapitsa
