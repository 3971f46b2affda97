// A model as its files describe it, in the words of the Hugging Face layout: config.json,
// generation_config.json, tokenizer.json, tokenizer_config.json, chat_template.jinja, and safetensors (one
// file, or shards with an index). A GGUF file says the same in its metadata (formats/gguf_checkpoint.h).
// Opening maps the weights and reads none of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "formats/description.h"
#include "formats/gguf.h"
#include "formats/mapped_file.h"
#include "formats/tokenizer_description.h"

namespace kapitsa {

struct Checkpoint {
    std::string path;                    // the folder, or the GGUF file
    std::shared_ptr<const Json> config;  // config.json: an object
    std::shared_ptr<const Json>
        generation_config;  // generation_config.json: an object, or null where there is none
    std::shared_ptr<const Json> hf_quant_config;      // hf_quant_config.json: likewise
    std::shared_ptr<const Json> preprocessor_config;  // preprocessor_config.json, else processor_config.json
    std::shared_ptr<const Json> tokenizer_config;     // tokenizer_config.json: likewise
    std::string chat_template;      // chat_template.jinja, else the one in tokenizer_config, else ""
    std::vector<MappedFile> files;  // the weights; they outlive every TensorEntry below
    std::unordered_map<std::string, TensorEntry> tensors;
    std::string blind_because;  // of a vision tower beside the model, why it is no part of it; "" if none
    std::shared_ptr<const Gguf> gguf;  // the metadata of the first file, where the files are GGUF; else null

    std::uint64_t weight_bytes() const;  // of all tensors
    /// The tokenizer. Read when asked for: a test of the arithmetic has none. Errors name the file or the
    /// key.
    Result<TokenizerDescription> tokenizer() const;
    /// The text of a named token of tokenizer_config ("bos_token", "eos_token"), a string or {"content":
    /// ...}; "" if none.
    std::string token_text(std::string_view name) const;
};

/// Errors name the file, and within it the field.
Result<Checkpoint> open_checkpoint(const std::string& folder);

}  // namespace kapitsa
