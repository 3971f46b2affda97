// A vocabulary comes from a file and is checked once, here; words come from anywhere and are bounded by what
// the caller cuts.
#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace kapitsa {
namespace {

/// Bytes that no UTF-8 text holds need no token.
bool occurs_in_utf8(unsigned byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

constexpr std::size_t short_bytes_max = 48;
/// Longer words are merged in parts of this size, so that a place in one fits 32 bits.
constexpr std::size_t part_bytes_max = 1u << 30;

}  // namespace

Result<Bpe> Bpe::make(const PieceTable& table,
                      const std::vector<std::pair<std::string, std::string>>& merges) {
    Bpe bpe;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const char text = static_cast<char>(byte);
        const auto id = table.find({&text, 1});
        if (!id && occurs_in_utf8(byte))
            return fail(Fault::corrupt_file,
                        "the vocabulary has no token for the byte " + std::to_string(byte));
        bpe.byte_tokens_[byte] = id.value_or(-1);
    }
    bpe.merges_.resize(std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 2)));
    bpe.shift_ = 64u - static_cast<unsigned>(std::countr_zero(bpe.merges_.size()));
    std::string merged;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
        const auto& [left, right] = merges[rank];
        merged.assign(left).append(right);
        const auto left_id = table.find(left), right_id = table.find(right), merged_id = table.find(merged);
        if (!left_id || !right_id || !merged_id)
            return fail(Fault::corrupt_file, "merge " + std::to_string(rank) +
                                                 (left_id && right_id ? " makes a piece" : " joins a piece") +
                                                 " that is not in the vocabulary");
        bpe.insert({pair_of(*left_id, *right_id), static_cast<std::uint32_t>(rank), *merged_id});
    }
    return bpe;
}

/// A merge that stands twice counts where it stands last, as in the library whose files these are.
void Bpe::insert(Merge merge) {
    std::size_t at = slot_of(merge.pair);
    while (merges_[at].rank != no_rank && merges_[at].pair != merge.pair)
        at = (at + 1) & (merges_.size() - 1);
    merges_[at] = merge;
}

const Bpe::Merge& Bpe::find(Token left, Token right) const {
    const std::uint64_t pair = pair_of(left, right);
    std::size_t at = slot_of(pair);
    while (merges_[at].pair != pair && merges_[at].rank != no_rank) at = (at + 1) & (merges_.size() - 1);
    return merges_[at];
}

void Bpe::encode(std::string_view word, std::vector<Token>& out, Scratch& scratch) const {
    if (word.size() <= short_bytes_max) return encode_short(word, out);
    for (; !word.empty(); word.remove_prefix(std::min(word.size(), part_bytes_max)))
        encode_long(word.substr(0, part_bytes_max), out, scratch);
}

/// Looks through all pairs for each merge: the fastest for the few bytes that most words have.
void Bpe::encode_short(std::string_view word, std::vector<Token>& out) const {
    std::array<Token, short_bytes_max> ids;
    std::array<std::uint64_t, short_bytes_max>
        pairs;  // that begin here: the rank, and below it what they make
    std::size_t count = word.size();
    const auto look_up = [&](std::size_t at) {
        const Merge& merge = find(ids[at], ids[at + 1]);
        pairs[at] = static_cast<std::uint64_t>(merge.rank) << 32 | static_cast<std::uint32_t>(merge.merged);
    };
    for (std::size_t i = 0; i < count; ++i) ids[i] = byte_tokens_[static_cast<unsigned char>(word[i])];
    for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);

    while (count > 1) {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < count; ++i)
            if (pairs[i] < pairs[best]) best = i;
        if (pairs[best] >> 32 == no_rank) break;
        ids[best] = static_cast<Token>(pairs[best]);
        --count;
        for (std::size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
        for (std::size_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
        if (best + 1 < count) look_up(best);
        if (best > 0) look_up(best - 1);
    }
    out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

/// A heap of (rank, place) over a linked list. An entry is stale when the pair at its place has another rank
/// by now: a pair there that has grown can never have its old rank again.
void Bpe::encode_long(std::string_view word, std::vector<Token>& out, Scratch& scratch) const {
    const auto size = static_cast<std::uint32_t>(word.size());
    auto& [ids, ranks, next, previous, heap] = scratch;
    ids.resize(size);
    ranks.assign(size, no_rank);
    next.resize(size);
    previous.resize(size);
    heap.clear();
    for (std::uint32_t i = 0; i < size; ++i) {
        ids[i] = byte_tokens_[static_cast<unsigned char>(word[i])];
        next[i] = i + 1;
        previous[i] = i - 1;  // wraps for the first, which nobody asks
    }
    const auto entry = [&](std::uint32_t at) { return static_cast<std::uint64_t>(ranks[at]) << 32 | at; };
    for (std::uint32_t i = 0; i + 1 < size; ++i) {
        ranks[i] = rank(ids[i], ids[i + 1]);
        if (ranks[i] != no_rank) heap.push_back(entry(i));
    }
    std::make_heap(heap.begin(), heap.end(), std::greater<>());

    const auto refresh = [&](std::uint32_t at) {
        ranks[at] = next[at] < size ? rank(ids[at], ids[next[at]]) : no_rank;
        if (ranks[at] == no_rank) return;
        heap.push_back(entry(at));
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
    };
    while (!heap.empty()) {
        const std::uint64_t best = heap.front();
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        heap.pop_back();
        const auto at = static_cast<std::uint32_t>(best);
        if (ranks[at] != best >> 32) continue;
        const std::uint32_t gone = next[at];
        ids[at] = find(ids[at], ids[gone]).merged;
        ranks[gone] = no_rank;
        next[at] = next[gone];
        if (next[at] < size) previous[next[at]] = at;
        refresh(at);
        if (at > 0) refresh(previous[at]);
    }
    for (std::uint32_t at = 0; at < size; at = next[at]) out.push_back(ids[at]);
}

}  // namespace kapitsa
