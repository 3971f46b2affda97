// Where the text model stands in a checkpoint: its names begin in one of three ways, by who wrote the file.
#pragma once

#include <string>

#include "model/weights.h"

namespace kapitsa {

struct Trunk {
    std::string prefix;  // "model.language_model.", "language_model.model." or "model."
    std::string head;    // "lm_head", or "language_model.lm_head"
};

inline Result<Trunk> find_trunk(const Weights& weights) {
    for (const std::string prefix : {"model.language_model.", "language_model.model.", "model."})
        if (weights.has(prefix + "embed_tokens.weight"))
            return Trunk{prefix, prefix == "language_model.model." ? "language_model.lm_head" : "lm_head"};
    return fail(Fault::corrupt_file,
                "no embedding: there is no tensor model.language_model.embed_tokens.weight, nor "
                "language_model.model.embed_tokens.weight, nor model.embed_tokens.weight");
}

}  // namespace kapitsa
