#include "model/machine_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/check.h"
#include "base/log.h"

namespace kapitsa {

MachineMemory machine_memory() {
    MachineMemory memory;
    std::ifstream file("/proc/meminfo");
    std::string name, unit;
    for (std::uint64_t kibibytes = 0; file >> name >> kibibytes; std::getline(file, unit)) {
        if (name == "MemTotal:") memory.total = kibibytes << 10;
        if (name == "MemAvailable:") memory.available = kibibytes << 10;
    }
    return memory;
}

MachineWatch::Advice MachineWatch::look() {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < options_.interval) return Advice::keep;
    looked_ = now;
    const MachineMemory machine = options_.machine();
    if (machine.total == 0) return Advice::keep;
    if (machine.available < machine.total / 20) return Advice::shrink;
    return machine.available > machine.total / 5 ? Advice::grow : Advice::keep;
}

Result<PinnedMemory> PinnedMemory::make(std::uint64_t bytes, const std::string& whose) {
    CHECK(bytes > 0);
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return fail(Fault::out_of_memory, "the system did not give " + std::to_string(bytes >> 20) +
                                              " MiB for " + whose +
                                              ": --expert-memory sets how much they have");
#if defined(MLOCK_ONFAULT)
    if (::mlock2(at, bytes, MLOCK_ONFAULT) != 0)
        log_debug("the memory for " + whose + " is not pinned: " + std::string(std::strerror(errno)));
#endif
    return PinnedMemory(static_cast<std::byte*>(at), bytes);
}

PinnedMemory::~PinnedMemory() {
    if (data_) ::munmap(data_, bytes_);
}

void PinnedMemory::give_back(std::uint64_t begin, std::uint64_t bytes) {
    CHECK(begin <= bytes_ && bytes <= bytes_ - begin);
    // Whole pages alone.
    const std::uint64_t page = std::uint64_t(::sysconf(_SC_PAGE_SIZE));
    const std::uint64_t first = (begin + page - 1) / page * page,
                        last = begin + bytes == bytes_ ? bytes_ : (begin + bytes) / page * page;
    if (first >= last) return;
#if defined(MLOCK_ONFAULT)
    ::munlock(data_ + first, last - first);
#endif
    ::madvise(data_ + first, last - first, MADV_DONTNEED);
}

}  // namespace kapitsa
