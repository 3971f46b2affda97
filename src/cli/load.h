// From a name on the command line to a model that answers: what serve, chat and bench share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "formats/checkpoint.h"
#include "server/model_service.h"

namespace kapitsa {

/// What `declare_load_options` gives to a command.
struct LoadOptions {
    std::string model;                          // as find_model takes it
    std::uint64_t context = 0;                  // tokens one sequence may hold; 0: as load_runner chooses
    std::uint64_t threads = 0;                  // 0: one a core
    std::string backend;                        // empty: default_backend()
    std::optional<std::uint64_t> expert_bytes;  // as RunnerOptions has it
    std::uint64_t parallel = 1;                 // sequences at once
    std::string mmproj;                         // as choose_tower takes it (towers.h)
};

void declare_load_options(Arguments& arguments, LoadOptions& options);
/// What commands take beside them that show images to the model.
void declare_tower_option(Arguments& arguments, LoadOptions& options);

struct LoadedModel {
    std::unique_ptr<Checkpoint> checkpoint;  // outlives the service: weights are used where they are mapped
    std::unique_ptr<ModelService> service;
    std::string told_of_tower;  // by which file a GGUF model is shown images; "" if by none
};

/// Errors name the folder.
Result<LoadedModel> load_model(const LoadOptions& options);

/// An error of the model at `path`: names it, once, and says what helps where the message cannot know.
Error explained(Error error, const std::string& path);

/// What --threads asks for, resolved.
std::uint32_t wanted_threads(std::uint64_t threads);

}  // namespace kapitsa
