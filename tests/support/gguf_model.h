// A golden model folder turned into a GGUF file, as converters do it. Written from the formats' descriptions
// and not from the reader, so that a mistake of the reader's shows.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "support/gguf_writer.h"
#include "support/golden.h"

namespace kapitsa {

/// How converters turn the value heads of the delta net: head i * copies + j becomes j * key heads + i.
class HeadOrder {
public:
    explicit HeadOrder(const Json& config);
    /// Turns a tensor, by its name in the folder; those without value heads stay.
    void tile(const std::string& name, Array<float>& tensor) const;
    /// Whether the orders differ: else a test of them would see nothing.
    bool shows() const { return key_heads_ > 1 && value_heads_ > key_heads_; }

private:
    std::size_t key_heads_, value_heads_, key_width_, value_width_;
};

/// All tensors of a folder below tests/data/goldens, by name, as floats.
std::vector<std::pair<std::string, Array<float>>> tensors_of(const std::string& folder);

/// @param folder below tests/data/goldens
/// @param type of the matrices whose rows it fits; the others, and vectors, are F32
/// @param rounded what those matrices are rounded to before
GgufWriter gguf_of(const std::string& folder, ElementType type, std::optional<ElementType> rounded = {});

/// The vision tower of such a folder as a file of its own (mmproj). Parameters as of gguf_of.
GgufWriter mmproj_of(const std::string& folder, ElementType type, std::optional<ElementType> rounded = {});

/// A vocabulary of as many tokens as the folder's model has, with <|image_pad|> where it has it.
void add_vocabulary(GgufWriter& writer, const std::string& folder);

}  // namespace kapitsa
