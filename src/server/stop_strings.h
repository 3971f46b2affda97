// Stop strings in a text that arrives in pieces. Wherever the pieces are cut, the same string is found at the
// same place: the one that is complete first, the longer one of two that are complete at once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kapitsa {

class StopStrings {
public:
    /// None of them is empty. The work for a byte of text grows with their total length, so whoever takes
    /// them from outside bounds it.
    explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

    /// The text that can no longer be part of a stop string. Nothing more once one was found.
    std::string push(std::string_view text);
    /// The text ended: what was held back.
    std::string finish();

    /// Bytes of text given out so far.
    std::size_t passed_bytes() const { return passed_bytes_; }
    /// Where in the whole text the found string begins, in bytes.
    std::optional<std::size_t> found() const { return found_; }

private:
    std::vector<std::string> stops_;
    std::string held_;              // the longest end of the text that begins one of them
    std::size_t passed_bytes_ = 0;  // of text before held_
    std::optional<std::size_t> found_;
};

}  // namespace kapitsa
