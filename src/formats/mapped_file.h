// A read-only mapping of a whole file. Pages arrive as they are touched; the mapping outlives the descriptor.
#pragma once

#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace kapitsa {

class MappedFile {
public:
    /// Fault::invalid_input, with the system's reason, when the file cannot be opened or mapped or is empty.
    static Result<MappedFile> open(const std::string& path);

    MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    MappedFile& operator=(MappedFile&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~MappedFile();

    Bytes bytes() const { return bytes_; }

private:
    explicit MappedFile(Bytes bytes) : bytes_(bytes) {}
    Bytes bytes_;
};

}  // namespace kapitsa
