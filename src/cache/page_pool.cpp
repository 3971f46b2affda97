#include "cache/page_pool.h"

#include <utility>

#include "base/check.h"

namespace kapitsa {

PagePool::PagePool(std::uint32_t pages) : references_(pages) {
    free_.reserve(pages);
    for (Page page = pages; page-- > 0;) free_.push_back(page);  // so that page 0 goes first
}

bool PagePool::reserve(std::uint32_t pages) {
    if (pages > available()) return false;
    reserved_ += pages;
    return true;
}

void PagePool::unreserve(std::uint32_t pages) {
    CHECK(pages <= reserved_);
    reserved_ -= pages;
}

Page PagePool::take() {
    CHECK(reserved_ > 0);
    CHECK(!free_.empty());
    --reserved_;
    const Page page = free_.back();
    free_.pop_back();
    CHECK(references_[page] == 0);
    references_[page] = 1;
    return page;
}

void PagePool::retain(Page page) {
    CHECK(page < pages());
    CHECK(references_[page] > 0);
    ++references_[page];
}

void PagePool::release(Page page) {
    CHECK(page < pages());
    CHECK(references_[page] > 0);
    if (--references_[page] == 0) free_.push_back(page);
}

std::uint32_t PagePool::references(Page page) const {
    CHECK(page < pages());
    return references_[page];
}

std::optional<PageTable> PageTable::reserve(PagePool& pool, std::uint32_t tokens,
                                            std::span<const Page> shared) {
    const std::uint32_t wanted = pages_for(tokens);
    CHECK(shared.size() <= wanted);
    const auto promised = std::uint32_t(wanted - shared.size());
    if (!pool.reserve(promised)) return std::nullopt;
    PageTable table;
    table.pool_ = &pool;
    table.promised_ = promised;
    table.pages_.reserve(wanted);  // so that a step never allocates
    for (const Page page : shared) {
        pool.retain(page);
        table.pages_.push_back(page);
    }
    return table;
}

PageTable::PageTable(PageTable&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      pages_(std::exchange(other.pages_, {})),
      promised_(std::exchange(other.promised_, 0)) {}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(pages_, other.pages_);
    std::swap(promised_, other.promised_);
    return *this;
}

PageTable::~PageTable() {
    if (!pool_) return;
    // Backwards, so that the pool gives them out again in the order they had.
    for (auto page = pages_.rbegin(); page != pages_.rend(); ++page) pool_->release(*page);
    pool_->unreserve(promised_);
}

void PageTable::grow(std::uint32_t tokens) {
    const std::uint32_t wanted = pages_for(tokens);
    CHECK(wanted <= pages_.size() + promised_);
    while (pages_.size() < wanted) {
        pages_.push_back(pool_->take());
        --promised_;
    }
}

}  // namespace kapitsa
