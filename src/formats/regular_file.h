// Opening files of a model folder. A path may lead anywhere: to a folder, a pipe that nobody writes to, a
// link to nothing. Only regular files are opened, and none is waited for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace kapitsa {

/// Two paths with one identity are one file; a file that was put in place of another has one of its own.
struct FileIdentity {
    std::uint64_t device = 0, number = 0;
    friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// An open regular file, and its size when it was opened.
class RegularFile {
public:
    /// Fault::invalid_input, with the path and the system's reason. Links are followed: a download cache is
    /// made of them.
    static Result<RegularFile> open(const std::string& path);

    RegularFile(RegularFile&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, -1)),
          bytes_(other.bytes_),
          identity_(other.identity_) {}
    RegularFile& operator=(RegularFile&&) = delete;
    ~RegularFile();

    int descriptor() const { return descriptor_; }
    std::uint64_t bytes() const { return bytes_; }
    FileIdentity identity() const { return identity_; }
    /// From here on reads go past the system's page cache, where it lets them (blocks of 4096 bytes, at such
    /// places, to such places). @return whether it does
    bool bypass_cache();

private:
    RegularFile(int descriptor, std::uint64_t bytes) : descriptor_(descriptor), bytes_(bytes) {}

    int descriptor_;
    std::uint64_t bytes_;
    FileIdentity identity_;
};

/// The whole of a small file. Refused before a byte is read when it is larger than `limit_bytes`.
Result<std::string> read_text_file(const std::string& path, std::uint64_t limit_bytes);

}  // namespace kapitsa
