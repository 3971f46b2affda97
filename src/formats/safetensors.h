// safetensors: eight bytes of length, a JSON header that names the tensors, then their bytes.
// Source: the format's own description (github.com/huggingface/safetensors). Reads the header alone, and
// believes nothing of it: see read_safetensors.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/description.h"

namespace kapitsa {

/// The tensors of a file, by their place in it; their bytes are views of `file`. Every tensor lies inside the
/// file, has as many bytes as its shape needs, and together they cover what follows the header: no overlap,
/// no hole, nothing after the last. Names are UTF-8 and occur once. Memory is bounded by a small multiple of
/// the header's real length. Errors name the tensor and its field; the caller adds the file's name.
Result<std::vector<TensorEntry>> read_safetensors(Bytes file);

}  // namespace kapitsa
