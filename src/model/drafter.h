// A small model that goes with a large one and guesses how it goes on: from the large one's stream at a row
// and the token that follows, it says what comes after that token. Its layers attend by the page tables of
// their model, in memory of their own: it has one entry for each row of its model.
#pragma once

#include <cstdint>
#include <vector>

#include "model/batch.h"
#include "model/memory.h"
#include "model/recorder.h"

namespace kapitsa {

class Drafter {
public:
    /// Rows to read the stream from.
    struct Streams {
        Tensor rows;     // [.., width] the model's (the last of its Taps), or the drafter's own
        Address picked;  // uint [batch.rows] which of them; null: row i
    };

    virtual ~Drafter() = default;
    /// What its layers remember, by place behind the model's own in ModelMemory::attention.
    virtual const std::vector<AttentionShape>& attention() const = 0;
    /// Records one step of rows (stream at j, token at j + 1), each at position j. `streams` gets their own,
    /// with which a guess can be carried on. @return [wanted, vocabulary] logits on the scratch stack
    virtual Tensor forward(const Batch& batch, const Streams& before, Address streams,
                           const ModelMemory& memory, Recorder& r) const = 0;
};

}  // namespace kapitsa
