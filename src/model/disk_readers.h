// Reads parts of a checkpoint's files into memory: several threads at once, since an SSD is fast only when it
// is asked for much at once, and whole blocks past the system's page cache, where the file system lets us.
// Who keeps parts in memory names them by the addresses at which they are mapped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backend/tensor.h"
#include "base/result.h"
#include "formats/mapped_file.h"

namespace kapitsa {

class DiskFiles {
public:
    static constexpr std::uint64_t block = 4096;  // what reads past the page cache are aligned to

    /// `files` must outlive this.
    explicit DiskFiles(std::span<const MappedFile> files);
    ~DiskFiles();

    /// Before the first read.
    void open();
    bool hold(Address place) const { return file_of(place) != nullptr; }
    /// Where a place of a file stands in its block.
    std::uint64_t within(Address place) const;
    /// Room for so many bytes wherever they begin in their block.
    static std::uint64_t padded(std::uint64_t bytes) { return up(bytes) + block; }
    static std::uint64_t up(std::uint64_t bytes) { return (bytes + block - 1) / block * block; }

    /// The whole blocks of [place, place + bytes). @return false: they cannot be read this way, but where
    /// they are mapped. Fault::device when the file does not have them any more.
    Result<bool> read(Address place, std::uint64_t bytes, std::byte* to) const;

private:
    struct File;
    const File* file_of(Address place) const;
    std::vector<File> files_;  // by address
};

/// Who has parts read, known by numbers of its own.
class DiskReads {
public:
    virtual ~DiskReads() = default;
    /// On a thread of the readers. @return false: it is used where it is mapped. After an error the memory
    /// for it is zero: what is computed with it is nobody's.
    virtual Result<bool> read_part(std::uint32_t number) = 0;
    /// With the lock. @return whether somebody may be waiting for this one
    virtual bool part_is_read(std::uint32_t number, bool in_memory) = 0;
};

class DiskReaders {
public:
    using Lock = std::unique_lock<std::mutex>;

    /// `files` must outlive this.
    explicit DiskReaders(std::span<const MappedFile> files) : files_(files) {}
    ~DiskReaders() { stop(); }

    const DiskFiles& files() const { return files_; }
    /// Opens the files and starts the threads, if that has not been done.
    void start(std::uint32_t threads = 8);
    /// No part is read any more. Whoever has parts read calls it before it is gone.
    void stop();

    /// Of what those who have parts read share with the threads.
    Lock lock() const { return Lock(mutex_); }
    // With the lock:
    void begin(DiskReads& whose, std::uint32_t number) { urgent_.push_back({&whose, number}); }
    /// Behind all that is not begun ahead.
    void begin_ahead(DiskReads& whose, std::uint32_t number) { ahead_.push_back({&whose, number}); }
    /// Of a part begun ahead that is wanted now.
    void hurry(DiskReads& whose, std::uint32_t number);
    /// Lets the threads know of what was begun.
    void wake() { wanted_.notify_all(); }
    /// Until another part has been read.
    void wait(Lock& lock) { done_.wait(lock); }

    /// The first error of a read. It stays: a part of the model is gone.
    Status status() const;

private:
    struct Part {
        DiskReads* whose;
        std::uint32_t number;
        friend bool operator==(const Part&, const Part&) = default;
    };
    void read_parts();

    DiskFiles files_;
    mutable std::mutex mutex_;
    std::condition_variable wanted_, done_;
    std::deque<Part> urgent_, ahead_;
    bool stopping_ = false;
    Status status_ = Done{};
    std::vector<std::thread> threads_;
};

}  // namespace kapitsa
