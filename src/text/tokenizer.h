// Text to tokens: byte-level BPE as tokenizer.json describes it.
// Order of work: added tokens are cut out of the raw text (the longest at each place, never where a plain
// byte is touched), then each stretch between them is normalised (NFC), split by the model's regex, and
// merged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/tokenizer_description.h"
#include "text/marked_text.h"

namespace kapitsa {

/// Immutable once made; any number of threads may encode at once.
class Tokenizer {
public:
    static Result<Tokenizer> make(TokenizerDescription description);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    /// Any bytes are accepted; what is not UTF-8 goes in as U+FFFD. Linear in the text but for one
    /// word's merges, which are bounded.
    /// Stops, behind a word or inside a very long one, when there are more than `most` tokens: a text from
    /// outside may be far longer than anybody has use for.
    std::vector<Token> encode(const MarkedText& text, std::size_t most = SIZE_MAX) const;

    /// The bytes of one token: not always whole characters. Empty for an id that has none.
    std::string_view piece(Token token) const;
    /// Whether the token is an added one that answers leave out (`<|im_end|>`).
    bool is_special(Token token) const;
    /// The id of the added token, or of the vocabulary piece, that is exactly this text.
    std::optional<Token> find(std::string_view piece) const;
    /// What a text that stands by itself begins with, in models that were trained so. `encode` leaves it out.
    std::optional<Token> first() const;
    /// One past the largest id that has a token. Rows of the embedding beyond it are never sampled.
    std::size_t vocabulary() const;

private:
    struct Impl;
    explicit Tokenizer(std::unique_ptr<Impl> impl);
    std::unique_ptr<const Impl> impl_;
};

}  // namespace kapitsa
