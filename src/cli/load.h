// From a name on the command line to an engine that runs: what serve, chat and bench share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "engine/engine.h"
#include "formats/checkpoint.h"

namespace kapitsa {

/// The options of the same name; `declare_load_options` gives them to a command.
struct LoadOptions {
    std::string model;            // as find_model takes it
    std::uint64_t context = 0;    // tokens one sequence may hold; 0: what the model was made for
    std::uint64_t threads = 0;    // of the CPU; 0: all cores
    std::uint64_t parallel = 8;   // sequences at once
    std::string backend = "cpu";
};

void declare_load_options(Arguments& arguments, LoadOptions& options);

struct LoadedModel {
    std::string name;
    std::unique_ptr<Checkpoint> checkpoint;  // outlives the engine: weights are used where they are mapped
    std::unique_ptr<Engine> engine;
};

/// Errors name the folder.
Result<LoadedModel> load_model(const LoadOptions& options);

}  // namespace kapitsa
