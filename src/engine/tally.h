// What the engine thread and its callers both see: numbers, and the one fact that the device is lost.
// Everything else crosses as a message.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace kapitsa {

struct Tally {
    std::atomic<std::uint64_t> requests = 0, steps = 0, prompt_tokens = 0, reply_tokens = 0;
    std::atomic<std::uint32_t> open = 0;     // requests taken in and not yet answered for
    std::atomic<std::uint32_t> running = 0;  // of those, the ones that have a place

    std::string failure;               // written once, before `failed` is set
    std::atomic<bool> failed = false;  // the device has; it stays so
};

}  // namespace kapitsa
