#include "model/disk_readers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "formats/regular_file.h"

namespace kapitsa {

struct DiskFiles::File {
    std::uint64_t begin = 0, end = 0;  // addresses of the mapping
    const MappedFile* mapped = nullptr;
    std::unique_ptr<RegularFile> file = nullptr;  // by which it is read; null: it cannot be

    void open() {
        auto opened = RegularFile::open(mapped->path());
        if (!opened || opened->identity() != mapped->identity()) return;
        (void)opened->bypass_cache();  // where it cannot be, the cache does no harm but to others
        file = std::make_unique<RegularFile>(std::move(*opened));
    }

    /// What a read that came to nothing means. The mapping must not be touched where the file has ended or
    /// the disk has failed: that would be the program's end.
    Result<bool> failed(std::uint64_t end_of_read, int error) const {
        const std::string name = mapped->path();
        struct stat now;
        if (::fstat(file->descriptor(), &now) == 0 && std::uint64_t(now.st_size) < end_of_read)
            return fail(Fault::device, name +
                                           " became shorter while the model was in use: put the whole file "
                                           "back, and start again");
        if (error == EIO)
            return fail(Fault::device,
                        name + " cannot be read (" + std::strerror(error) + "): the disk may be failing");
        return false;
    }
};

DiskFiles::DiskFiles(std::span<const MappedFile> files) {
    for (const MappedFile& mapped : files) {
        const auto begin = reinterpret_cast<std::uintptr_t>(mapped.bytes().data());
        files_.push_back({.begin = begin, .end = begin + mapped.bytes().size(), .mapped = &mapped});
    }
    std::ranges::sort(files_, {}, &File::begin);
}

DiskFiles::~DiskFiles() = default;

void DiskFiles::open() {
    for (File& file : files_) file.open();
}

const DiskFiles::File* DiskFiles::file_of(Address place) const {
    const auto after = std::ranges::upper_bound(files_, place.value, {}, &File::begin);
    if (after == files_.begin()) return nullptr;
    const File& file = *std::prev(after);
    return place.value < file.end ? &file : nullptr;
}

std::uint64_t DiskFiles::within(Address place) const {
    const File* file = file_of(place);
    CHECK(file != nullptr);
    return (place.value - file->begin) % block;
}

Result<bool> DiskFiles::read(Address place, std::uint64_t bytes, std::byte* to) const {
    const File* file = file_of(place);
    CHECK(file != nullptr && bytes <= file->end - place.value);
    if (!file->file) return false;
    const std::uint64_t offset = place.value - file->begin, begin = offset / block * block,
                        wanted = offset + bytes - begin;
    for (std::uint64_t done = 0; done < wanted;) {
        const ssize_t count =
            ::pread(file->file->descriptor(), to + done, up(wanted) - done, off_t(begin + done));
        if (count < 0 && errno == EINTR) continue;
        const int error = count < 0 ? errno : 0;
        if (count <= 0 || (done + std::uint64_t(count) < wanted && count % block != 0))
            return file->failed(begin + wanted, error);
        done += std::uint64_t(count);
    }
    return true;
}

void DiskReaders::start(std::uint32_t threads) {
    if (!threads_.empty()) return;
    files_.open();
    for (std::uint32_t i = 0; i < std::max(1u, threads); ++i) threads_.emplace_back([this] { read_parts(); });
}

void DiskReaders::stop() {
    {
        const Lock locked = lock();
        stopping_ = true;
    }
    wanted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

void DiskReaders::hurry(DiskReads& whose, std::uint32_t number) {
    const Part part{&whose, number};
    if (std::erase(ahead_, part) > 0) urgent_.push_back(part);
}

Status DiskReaders::status() const {
    const Lock locked = lock();
    return status_;
}

void DiskReaders::read_parts() {
    Lock locked = lock();
    for (;;) {
        wanted_.wait(locked, [&] { return stopping_ || !urgent_.empty() || !ahead_.empty(); });
        if (stopping_) return;
        auto& queue = urgent_.empty() ? ahead_ : urgent_;
        const Part part = queue.front();
        queue.pop_front();
        locked.unlock();
        const Result<bool> in_memory = part.whose->read_part(part.number);
        locked.lock();
        if (!in_memory && status_) status_ = fail(in_memory.error());
        if (part.whose->part_is_read(part.number, in_memory.value_or(true))) done_.notify_all();
    }
}

}  // namespace kapitsa
