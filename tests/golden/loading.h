// Whether a checkpoint loads, and golden checkpoints with another config.json.
#pragma once

#include <string>

#include "base/json.h"
#include "support/checkpoint_writer.h"

namespace kapitsa {

/// "loaded", or the sentence with which the checkpoint in this folder is refused.
std::string why_refused(const std::string& folder);

/// The least RunnerOptions::expert_bytes that is accepted for a checkpoint, within a factor of two.
std::uint64_t least_expert_bytes(const std::string& folder);

/// Copies of a golden checkpoint that differ in their configs.
class ChangedConfigs {
public:
    /// @param golden below the project
    explicit ChangedConfigs(const std::string& golden);

    /// Writes the checkpoint with these fields set, in text_config where there is one and the field does not
    /// stand outside. @return its folder
    std::string with(const Json& fields);
    std::string with(const std::string& key, const Json& value);
    std::string why_refused(const Json& fields) { return kapitsa::why_refused(with(fields)); }
    std::string why_refused(const std::string& key, const Json& value) {
        return kapitsa::why_refused(with(key, value));
    }

private:
    std::string golden_;
    TemporaryFolder folder_;
    int written_ = 0;
};

}  // namespace kapitsa
