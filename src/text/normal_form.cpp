// Unicode data comes from utf8proc. Its own reordering is quadratic in a run of combining marks, and such
// runs come from outside: marks are sorted here, and utf8proc decomposes and composes.
#include "text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/utf8.h"

namespace kapitsa {
namespace {

constexpr char32_t first_composite = 0xC0;
constexpr char32_t first_unstable =
    0x300;  // below it nothing composes backwards, reorders or decomposes for good
constexpr char32_t table_end = 0x30000;  // nothing past it does today; should it, it is only slower
constexpr char32_t hangul_begin = 0xAC00, hangul_end = 0xD7A4;

struct Decomposition {
    std::array<utf8proc_int32_t, 32> code_points;
    std::size_t count;
};

/// The full canonical decomposition of one character; itself where it has none.
Decomposition decompose(char32_t code_point) {
    Decomposition result{};
    int boundary = 0;
    const auto count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code_point), result.code_points.data(),
        static_cast<utf8proc_ssize_t>(result.code_points.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
    if (count >= 1 && static_cast<std::size_t>(count) <= result.code_points.size()) {
        result.count = static_cast<std::size_t>(count);
    } else {
        result.code_points[0] = static_cast<utf8proc_int32_t>(code_point);
        result.count = 1;
    }
    return result;
}

/// Decomposed, ordered code points to composed ones, in place.
void compose(std::vector<utf8proc_int32_t>& code_points) {
    const auto count =
        utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (count >= 0) code_points.resize(static_cast<std::size_t>(count));
}

int combining_class(utf8proc_int32_t code_point) {
    return utf8proc_get_property(code_point)->combining_class;
}

/// Which characters are stable: NFC keeps them, they are starters, and nothing before them takes them in. The
/// text before a stable character and the text from it on are normalised apart.
class StableCharacters {
public:
    StableCharacters() {
        for (char32_t c = first_composite; c < table_end; ++c) {
            if (c >= hangul_begin && c < hangul_end)
                continue;  // made of the jamo below, and composed already
            const Decomposition parts = decompose(c);
            if (parts.count == 1 && parts.code_points[0] == static_cast<utf8proc_int32_t>(c)) {
                if (combining_class(parts.code_points[0]) != 0) mark_.set(c);
                continue;
            }
            // Whatever stands after the first in a decomposition can be taken in by what is before it.
            for (std::size_t i = 1; i < parts.count; ++i)
                doubtful_.set(static_cast<std::size_t>(parts.code_points[i]) % table_end);
            std::vector<utf8proc_int32_t> composed(
                parts.code_points.begin(),
                parts.code_points.begin() + static_cast<std::ptrdiff_t>(parts.count));
            compose(composed);
            if (composed.size() != 1 || composed[0] != static_cast<utf8proc_int32_t>(c)) doubtful_.set(c);
        }
        for (char32_t vowel = 0x1161; vowel <= 0x1175; ++vowel) doubtful_.set(vowel);
        for (char32_t tail = 0x11A8; tail <= 0x11C2; ++tail) doubtful_.set(tail);
    }
    bool contains(char32_t code_point) const {
        return code_point < first_unstable ||
               (code_point < table_end && !doubtful_[code_point] && !mark_[code_point]);
    }
    /// Marks that no character takes in, and that NFC only puts in order.
    bool is_lone_mark(char32_t code_point) const {
        return code_point < table_end && mark_[code_point] && !doubtful_[code_point];
    }

private:
    std::bitset<table_end> doubtful_, mark_;
};

const StableCharacters& stable_characters() {
    static const auto characters = std::make_unique<const StableCharacters>();
    return *characters;
}

/// Reads the character at `at`, which is the start of one, and steps over it.
char32_t take(std::string_view text, std::size_t& at) {
    const auto byte = [&](std::size_t i) {
        return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
    };
    const char32_t lead = byte(0);
    char32_t code_point = lead;
    std::size_t bytes = 1;
    if (lead >= 0xF0) {
        code_point = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
        bytes = 4;
    } else if (lead >= 0xE0) {
        code_point = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
        bytes = 3;
    } else if (lead >= 0x80) {
        code_point = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
        bytes = 2;
    }
    at += bytes;
    return code_point;
}

/// Steps over the bytes from `at` on that are below U+0300 for sure.
std::size_t skip_low(std::string_view text, std::size_t at) {
    constexpr std::uint64_t high_bits = 0x8080808080808080;
    for (std::uint64_t word; at + sizeof word <= text.size(); at += sizeof word) {
        std::memcpy(&word, text.data() + at, sizeof word);
        if ((word & high_bits) != 0) break;
    }
    while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
    return at;
}

/// The end of the run of unstable characters at `at`.
std::size_t unstable_end(std::string_view text, std::size_t at) {
    while (at < text.size()) {
        std::size_t next = at;
        if (stable_characters().contains(take(text, next))) break;
        at = next;
    }
    return at;
}

/// Sorts by combining class; marks of one class stay as they are.
void order_marks(std::span<utf8proc_int32_t> marks) {
    constexpr unsigned code_point_bits = 21, place_bits = 35;
    std::vector<std::uint64_t> keys;  // class, place, code point
    for (const utf8proc_int32_t mark : marks)
        keys.push_back((static_cast<std::uint64_t>(combining_class(mark)) << place_bits | keys.size())
                           << code_point_bits |
                       static_cast<std::uint64_t>(mark));
    std::sort(keys.begin(), keys.end());
    for (std::size_t i = 0; i < marks.size(); ++i)
        marks[i] = static_cast<utf8proc_int32_t>(keys[i] & ((1u << code_point_bits) - 1));
}

void append_nfc(std::string& out, std::string_view piece) {
    std::vector<utf8proc_int32_t> code_points;
    for (std::size_t at = 0; at < piece.size();) {
        const Decomposition parts = decompose(take(piece, at));
        code_points.insert(code_points.end(), parts.code_points.begin(),
                           parts.code_points.begin() + static_cast<std::ptrdiff_t>(parts.count));
    }
    for (auto run = code_points.begin(); run != code_points.end();) {
        if (combining_class(*run) == 0) {
            ++run;
            continue;
        }
        const auto end = std::find_if(run, code_points.end(), [](auto c) { return combining_class(c) == 0; });
        order_marks({run, end});
        run = end;
    }
    compose(code_points);
    for (const utf8proc_int32_t code_point : code_points) append_utf8(out, static_cast<char32_t>(code_point));
}

/// Where the pieces of a text went. Calls come in the order of the text.
class PlainRanges {
public:
    explicit PlainRanges(const std::vector<MarkedText::Range>& ranges)
        : next_(ranges.begin()), end_(ranges.end()) {}

    /// The piece [begin, end) became [to_begin, to_end): moved as it was, or rewritten as one.
    void moved(std::size_t begin, std::size_t end, std::size_t to_begin, std::size_t to_end, bool rewritten) {
        for (; next_ != end_ && next_->begin < end; ++next_) {
            if (next_->end > begin) {
                const std::size_t first = std::max(next_->begin, begin) - begin;
                const std::size_t last = std::min(next_->end, end) - begin;
                if (rewritten)
                    add({to_begin, to_end});
                else
                    add({to_begin + first, to_begin + last});
            }
            if (next_->end > end) break;  // it goes on in the next piece
        }
    }
    std::vector<MarkedText::Range> take() && { return std::move(ranges_); }

private:
    void add(MarkedText::Range range) {
        if (range.begin == range.end) return;
        if (!ranges_.empty() && range.begin <= ranges_.back().end)
            ranges_.back().end = std::max(ranges_.back().end, range.end);
        else
            ranges_.push_back(range);
    }

    std::vector<MarkedText::Range>::const_iterator next_, end_;
    std::vector<MarkedText::Range> ranges_;
};

}  // namespace

std::size_t nfc_prefix(std::string_view text) {
    const StableCharacters& stable = stable_characters();
    std::size_t last = 0;  // the last stable character so far: what follows may be taken into it
    int last_class = 0;    // of the marks since
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t low_end = skip_low(text, at);
        if (low_end > at) {
            last = low_end - 1;
            last_class = 0;
        }
        at = low_end;
        if (at == text.size()) break;
        const std::size_t begin = at;
        const char32_t code_point = take(text, at);
        if (stable.contains(code_point)) {
            last = begin;
            last_class = 0;
            continue;
        }
        const int own_class = combining_class(static_cast<utf8proc_int32_t>(code_point));
        if (!stable.is_lone_mark(code_point) || own_class < last_class) return last;
        last_class = own_class;
    }
    return text.size();
}

MarkedText to_nfc(const MarkedText& marked) {
    MarkedText result;
    PlainRanges plain(marked.plain);
    std::string& out = result.text;
    out.reserve(marked.text.size());
    const std::string_view text = marked.text;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t kept = nfc_prefix(text.substr(at));
        std::size_t begin = out.size();
        out.append(text.substr(at, kept));
        plain.moved(at, at + kept, begin, out.size(), false);
        at += kept;
        if (at == text.size()) break;
        // One stable character, unless the text begins with an unstable one, and the unstable ones after it.
        std::size_t end = at;
        take(text, end);
        end = unstable_end(text, end);
        begin = out.size();
        append_nfc(out, text.substr(at, end - at));
        plain.moved(at, end, begin, out.size(), true);
        at = end;
    }
    result.plain = std::move(plain).take();
    return result;
}

}  // namespace kapitsa
