// The pages of attention memory: who holds which, counted. A sequence reserves all the pages it may come to
// need when it is admitted, so that it cannot run out halfway, and takes them one by one as it grows.
// Numbers alone: what lies in a page is the runner's. Owned by the engine thread; a broken count is a bug.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/page.h"

namespace kapitsa {

/// Invariant: each page is free or has references, and the reservations never exceed the free pages.
class PagePool {
public:
    explicit PagePool(std::uint32_t pages);
    PagePool(const PagePool&) = delete;  // tables point at it
    PagePool& operator=(const PagePool&) = delete;

    std::uint32_t pages() const { return std::uint32_t(references_.size()); }
    std::uint32_t free() const { return std::uint32_t(free_.size()); }
    std::uint32_t reserved() const { return reserved_; }
    /// Free and promised to nobody.
    std::uint32_t available() const { return free() - reserved_; }

    /// Promises so many pages; false, and nothing changes, when they are not available.
    [[nodiscard]] bool reserve(std::uint32_t pages);
    /// Gives back promises that were not used.
    void unreserve(std::uint32_t pages);

    /// Makes one promised page real. It has one reference.
    Page take();
    /// One more holder of a page that somebody holds already.
    void retain(Page page);
    /// One holder less; a page that nobody holds is free.
    void release(Page page);
    std::uint32_t references(Page page) const;

private:
    std::vector<std::uint32_t> references_;  // [pages]
    std::vector<Page> free_;                 // the next one to take is the last
    std::uint32_t reserved_ = 0;
};

/// The pages of one sequence, in order, and the promise of more. Returns both when it dies.
/// The pool must outlive it.
class PageTable {
public:
    /// Holds no pages and no promise.
    PageTable() = default;

    /// Room for `tokens` tokens, of which the first lie in `shared`: full pages that others hold too, and
    /// which this sequence will only read. Nothing when the pool cannot promise the rest.
    static std::optional<PageTable> reserve(PagePool& pool, std::uint32_t tokens,
                                            std::span<const Page> shared = {});

    PageTable(PageTable&& other) noexcept;
    PageTable& operator=(PageTable&& other) noexcept;
    ~PageTable();

    /// Takes pages until there is room for `tokens` tokens, which must not be more than were reserved.
    void grow(std::uint32_t tokens);

    /// Valid until the table grows or dies.
    std::span<const Page> pages() const { return pages_; }
    std::uint32_t promised() const { return promised_; }

private:
    PagePool* pool_ = nullptr;  // absent when empty
    std::vector<Page> pages_;
    std::uint32_t promised_ = 0;  // pages still to be taken
};

}  // namespace kapitsa
