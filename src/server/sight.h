// What a model needs to be shown images: how they are prepared, and the token that stands for them in a
// prompt.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/picture.h"
#include "chat/conversation.h"
#include "formats/checkpoint.h"
#include "image/preprocessor.h"
#include "model/runner.h"

namespace kapitsa {

class Sight {
public:
    Sight() = default;
    /// Blind, for a reason that goes behind "an image, and".
    explicit Sight(std::string blind_because) : blind_because_(std::move(blind_because)) {}
    Sight(const Preprocessor& preprocessor, Token pad, std::uint32_t patches_most)
        : blind_because_(), preprocessor_(preprocessor), pad_(pad), patches_most_(patches_most) {}
    /// What the files say, for the model that was made of them. Blind where they do not say enough.
    static Sight of(const Checkpoint& checkpoint, const RunnerInfo& info);

    /// Empty where the model sees.
    const std::string& blind_because() const { return blind_because_; }

    /// The images of a conversation, in its order. Errors name the image. Refused as well where they alone
    /// are more tokens than `tokens_most`, before all of them are decoded.
    Result<std::vector<std::shared_ptr<const Picture>>> look_at(const Conversation& conversation,
                                                                std::size_t tokens_most) const;

    /// Each of the template's tokens for an image becomes as many as the image has. Fault::unsupported where
    /// the template wrote more or fewer than there are pictures.
    Result<std::vector<PlacedPicture>> place(std::vector<Token>& tokens,
                                             std::vector<std::shared_ptr<const Picture>> pictures) const;

private:
    std::string blind_because_ = "the model has no vision tower";
    Preprocessor preprocessor_;
    Token pad_ = 0;
    std::uint32_t patches_most_ = 0;
};

}  // namespace kapitsa
