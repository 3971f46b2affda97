// Where Ollama keeps a model: a manifest (JSON) names blobs by their digests, and one of them is a GGUF file.
#pragma once

#include <string>

#include "base/result.h"

namespace kapitsa {

struct OllamaModel {
    std::string name, blob;  // "qwen3.5-4b", and the path of its GGUF file
    std::string tower;       // that of its vision tower; "" if it has none of its own
};

/// "ollama:NAME[:TAG]", or the path of a manifest. The tag is "latest" where it is left out. Blobs are looked
/// for where the manifest lies, else under $OLLAMA_MODELS or ~/.ollama/models.
Result<OllamaModel> find_ollama_model(const std::string& wanted);

/// Whether it is such a name, or the path of such a manifest.
bool names_ollama_model(const std::string& wanted);

}  // namespace kapitsa
