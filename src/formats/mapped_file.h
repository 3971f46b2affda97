// A read-only mapping of a whole file. Pages arrive as they are touched; the mapping outlives the descriptor.
#pragma once

#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/regular_file.h"

namespace kapitsa {

class MappedFile {
public:
    /// Fault::invalid_input, with the system's reason, when the file cannot be opened or mapped or is empty.
    static Result<MappedFile> open(const std::string& path);

    MappedFile(MappedFile&& other) noexcept
        : bytes_(std::exchange(other.bytes_, {})),
          path_(std::move(other.path_)),
          identity_(other.identity_) {}
    MappedFile& operator=(MappedFile&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        std::swap(path_, other.path_);
        std::swap(identity_, other.identity_);
        return *this;
    }
    ~MappedFile();

    Bytes bytes() const { return bytes_; }
    const std::string& path() const { return path_; }
    /// What stands at path() is the file that is mapped only while it has this identity.
    FileIdentity identity() const { return identity_; }

private:
    MappedFile(Bytes bytes, std::string path, FileIdentity identity)
        : bytes_(bytes), path_(std::move(path)), identity_(identity) {}
    Bytes bytes_;
    std::string path_;
    FileIdentity identity_;
};

}  // namespace kapitsa
