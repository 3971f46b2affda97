#include "formats/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kapitsa {
namespace {

std::string system_reason() { return std::strerror(errno); }

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& path) {
    // O_NONBLOCK: a pipe would otherwise be waited for. It means nothing for a regular file.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return fail(Fault::invalid_input, path + ": " + system_reason());
    RegularFile file(descriptor, 0);

    struct stat status;
    if (::fstat(descriptor, &status) != 0) return fail(Fault::invalid_input, path + ": " + system_reason());
    if (!S_ISREG(status.st_mode)) return fail(Fault::invalid_input, path + " is not a regular file");
    file.bytes_ = static_cast<std::uint64_t>(status.st_size);
    file.identity_ = {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
    return file;
}

bool RegularFile::bypass_cache() {
#if defined(O_DIRECT)
    const int flags = ::fcntl(descriptor_, F_GETFL);
    return flags >= 0 && ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0;
#elif defined(F_NOCACHE)
    return ::fcntl(descriptor_, F_NOCACHE, 1) == 0;
#else
    return false;
#endif
}

RegularFile::~RegularFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::string> read_text_file(const std::string& path, std::uint64_t limit_bytes) {
    const RegularFile file = TRY(RegularFile::open(path));
    if (file.bytes() > limit_bytes)
        return fail(Fault::invalid_input, path + " has " + std::to_string(file.bytes()) + " bytes; at most " +
                                              std::to_string(limit_bytes) + " are expected of such a file");
    std::string text(file.bytes(), '\0');
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t count = ::read(file.descriptor(), text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail(Fault::invalid_input, path + ": " + system_reason());
        if (count == 0) return fail(Fault::invalid_input, path + " became shorter while it was read");
        done += static_cast<std::size_t>(count);
    }
    return text;
}

}  // namespace kapitsa
