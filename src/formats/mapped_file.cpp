#include "formats/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>

namespace kapitsa {

Result<MappedFile> MappedFile::open(const std::string& path) {
    const RegularFile file = TRY(RegularFile::open(path));
    if (file.bytes() == 0) return fail(Fault::invalid_input, path + " is empty");
    if (file.bytes() > std::numeric_limits<std::size_t>::max())
        return fail(Fault::invalid_input, path + " is larger than this machine can map");

    const std::size_t bytes = file.bytes();
    void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (address == MAP_FAILED)
        return fail(Fault::invalid_input, path + " cannot be mapped: " + std::strerror(errno));
    return MappedFile(Bytes(static_cast<const std::byte*>(address), bytes), path, file.identity());
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace kapitsa
