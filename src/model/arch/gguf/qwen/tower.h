// The vision tower of Qwen's hybrid families as a GGUF file of its own (mmproj), as llama.cpp's converter
// writes it: projector "qwen3vl_merger".
#pragma once

#include "model/gguf_dialect.h"

namespace kapitsa::gguf::qwen {

/// What stands for an image in a prompt.
constexpr std::string_view image_token = "<|image_pad|>";

/// Says the tower in the words of a model folder: tensors "model.visual.*", vision_config, image_mean and its
/// like.
Status translate_tower(GgufTranslation& tower, const Json& model);

}  // namespace kapitsa::gguf::qwen
