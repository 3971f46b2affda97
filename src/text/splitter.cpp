// The regex comes from a file and the text from anywhere. Matching is bounded: by PCRE2's limits, and by
// falling back from its compiled form to its interpreter, which needs no stack.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/splitter.h"

#include <pcre2.h>

#include <array>

namespace kapitsa {
namespace {

constexpr std::size_t regex_bytes_max = 16u << 10;
constexpr std::uint32_t match_limit = 20'000'000;  // steps; one word of a megabyte takes one a character
constexpr std::uint32_t heap_limit_kib = 64u << 10;

template <auto release>
struct Release {
    template <typename T>
    void operator()(T* object) const {
        release(object);
    }
};
using Code = std::unique_ptr<pcre2_code, Release<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>>;

/// Rewrites what PCRE2 reads differently, and refuses what cannot be rewritten. `\s` is the Unicode property
/// White_Space; PCRE2's own adds U+180E, which has not been white space since Unicode 6.3.
class Translator {
public:
    explicit Translator(std::string_view regex) : left_(regex) {}

    Result<std::string> translate() {
        while (!left_.empty()) {
            const char c = left_[0];
            if (c == '\\') {
                TRY(escape());
            } else if (c == '(') {
                TRY(group());
            } else if (c == '[') {
                TRY(set());
            } else if (c == '^' || c == '$' || c == '.') {
                return refuse(std::string(1, c));
            } else {
                copy(1);
            }
        }
        return std::move(out_);
    }

private:
    static std::unexpected<Error> refuse(std::string_view what) {
        return fail(Fault::unsupported,
                    "the split regex has " + std::string(what) + ", which is not understood");
    }

    void copy(std::size_t bytes) {
        out_ += left_.substr(0, bytes);
        left_.remove_prefix(bytes);
    }

    Status escape() {
        if (left_.size() < 2) return refuse("a \\ at its end");
        const char c = left_[1];
        if (c == 's' || c == 'S') {
            out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
            left_.remove_prefix(2);
            return Done{};
        }
        if (c == 'p' || c == 'P') return property();
        const bool is_letter_or_digit =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & 0x80) != 0;
        if (is_letter_or_digit && c != 'r' && c != 'n' && c != 't' && c != 'd' && c != 'D')
            return refuse(left_.substr(0, 2));
        copy(2);
        return Done{};
    }

    /// General categories alone: their names mean the same to both.
    Status property() {
        const std::size_t close = left_.find('}');
        if (left_.size() < 3 || left_[2] != '{' || close == left_.npos || close > 6)
            return refuse(left_.substr(0, 3));
        const std::string_view name = left_.substr(3, close - 3);
        const auto is_in = [](char c, std::string_view set) { return set.find(c) != set.npos; };
        const bool category = (name.size() == 1 || name.size() == 2) && is_in(name[0], "LMNPSZC") &&
                              (name.size() == 1 || is_in(name[1], "ultmoncdefispkcs"));
        if (!category) return refuse(left_.substr(0, close + 1));
        copy(close + 1);
        return Done{};
    }

    Status group() {
        if (left_.size() < 2 || left_[1] != '?') {
            copy(1);
            return Done{};
        }
        for (const std::string_view opening : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"})
            if (left_.starts_with(opening)) {
                copy(opening.size());
                return Done{};
            }
        return refuse(left_.substr(0, 3));
    }

    Status set() {
        copy(1);
        if (left_.starts_with('^')) copy(1);
        for (bool first = true; !left_.empty(); first = false) {
            const char c = left_[0];
            if (c == '\\') {
                TRY(escape());
                continue;
            }
            if (c == '[' || left_.starts_with("&&")) return refuse("a set within a set");
            if (c == ']' && first) return refuse("an empty set");
            copy(1);
            if (c == ']') return Done{};
        }
        return refuse("a set that does not end");
    }

    std::string_view left_;
    std::string out_;
};

std::string message_of(int error) {
    std::array<unsigned char, 128> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct SplitPattern::Impl {
    Code code;
    MatchContext limits;
    bool compiled = false;  // to machine code
};

struct SplitPattern::Matcher::Impl {
    const SplitPattern::Impl& pattern;
    MatchData data;
};

SplitPattern::SplitPattern(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

Result<SplitPattern> SplitPattern::make(std::string_view regex) {
    if (regex.size() > regex_bytes_max)
        return fail(Fault::unsupported, "a split regex is longer than 16 KiB");
    const std::string translated = TRY(Translator(regex).translate());
    auto impl = std::make_unique<Impl>();
    int error = 0;
    std::size_t place = 0;
    impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr));
    if (!impl->code)
        return fail(Fault::corrupt_file, "the split regex is not valid: " + message_of(error) + " at byte " +
                                             std::to_string(place) + " of " + translated);
    std::uint32_t matches_empty = 0;
    pcre2_pattern_info(impl->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0)
        return fail(Fault::unsupported, "a split regex matches the empty text: " + translated);
    impl->limits.reset(pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(impl->limits.get(), match_limit);
    pcre2_set_heap_limit(impl->limits.get(), heap_limit_kib);
    impl->compiled = pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE) == 0;
    return SplitPattern(std::move(impl));
}

SplitPattern::Matcher::Matcher(const SplitPattern& pattern)
    : impl_(new Impl{*pattern.impl_, MatchData(pcre2_match_data_create(1, nullptr))}) {}
SplitPattern::Matcher::Matcher(Matcher&&) noexcept = default;
SplitPattern::Matcher::~Matcher() = default;

SplitPattern::Matcher::Match SplitPattern::Matcher::find(std::string_view text, std::size_t from) {
    const auto& [code, limits, compiled] = impl_->pattern;
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (compiled)
        result = pcre2_jit_match(code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                 impl_->data.get(), limits.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                             impl_->data.get(), limits.get());
    // Zero says that groups did not fit, which nobody asks for. Below it: no match, or a limit reached.
    if (result < 0) return {text.size(), text.size()};
    const std::size_t* place = pcre2_get_ovector_pointer(impl_->data.get());
    if (place[1] <= place[0] || place[0] < from) return {text.size(), text.size()};
    return {place[0], place[1]};
}

}  // namespace kapitsa
