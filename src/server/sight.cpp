#include "server/sight.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/config_reader.h"
#include "image/decode.h"

namespace kapitsa {
namespace {

Result<Sight> sight_of(const Checkpoint& checkpoint, const RunnerInfo& info) {
    Preprocessor preprocessor = TRY(Preprocessor::read(checkpoint.preprocessor_config.get()));
    if (preprocessor.side() != info.picture_side || preprocessor.block() != info.picture_block ||
        preprocessor.frames() != info.picture_frames)
        return fail(Fault::corrupt_file,
                    "preprocessor_config.json and config.json do not agree on patch_size, merge_size and "
                    "temporal_patch_size");
    preprocessor.limit_patches(info.picture_patches);
    const ConfigReader config(*checkpoint.config, "config.json");
    const Token pad = Token(TRY(config.number("image_token_id", {0, info.vocabulary - 1})));
    return Sight(preprocessor, pad, info.picture_patches);
}

/// A broken image is the fault of who sent it; broken files of a model are ours.
Error not_ours(Error error) {
    if (error.fault == Fault::corrupt_file) error.fault = Fault::invalid_input;
    return error;
}

}  // namespace

Sight Sight::of(const Checkpoint& checkpoint, const RunnerInfo& info) {
    if (info.picture_patches == 0) return Sight(info.blind_because);
    auto sight = sight_of(checkpoint, info);
    if (!sight) return Sight("the model's files do not say how it is shown one: " + sight.error().message);
    return std::move(*sight);
}

Result<std::vector<std::shared_ptr<const Picture>>> Sight::look_at(const Conversation& conversation,
                                                                   std::size_t tokens_most) const {
    std::vector<std::shared_ptr<const Picture>> pictures;
    std::size_t tokens = 0;
    for (const Message& message : conversation.messages)
        for (const MessageImage& image : message.images) {
            if (!blind_because_.empty())
                return fail(Fault::unsupported, image.name + " is an image, and " + blind_because_);
            auto pixels = decode_image(as_bytes(*image.file));
            if (!pixels) return fail(not_ours(std::move(pixels.error())).because(image.name));
            auto picture = preprocessor_.picture(std::move(*pixels));
            if (!picture) return fail(std::move(picture.error()).because(image.name));
            if (picture->patches() > patches_most_)
                return fail(Fault::invalid_input,
                            image.name + ": the image is so long that it becomes " +
                                std::to_string(picture->patches()) + " patches, and at most " +
                                std::to_string(patches_most_) + " are looked at: cut it");
            tokens += picture->tokens();
            if (tokens >= tokens_most)
                return fail(Fault::invalid_input,
                            image.name + ": the images up to this one are " + std::to_string(tokens) +
                                " tokens, and the context holds " + std::to_string(tokens_most) +
                                ": send fewer or smaller ones, or start with a larger "
                                "--ctx");
            pictures.push_back(std::make_shared<const Picture>(std::move(*picture)));
        }
    return pictures;
}

Result<std::vector<PlacedPicture>> Sight::place(std::vector<Token>& tokens,
                                                std::vector<std::shared_ptr<const Picture>> pictures) const {
    const auto pads = std::size_t(std::ranges::count(tokens, pad_));
    if (pads != pictures.size())
        return fail(Fault::unsupported, "the chat template of this model makes room for " +
                                            std::to_string(pads) + " images here, and the conversation has " +
                                            std::to_string(pictures.size()));
    std::vector<PlacedPicture> placed;
    std::vector<Token> expanded;
    for (const Token token : tokens) {
        if (token != pad_) {
            expanded.push_back(token);
            continue;
        }
        const auto& picture = pictures[placed.size()];
        placed.push_back({std::uint32_t(expanded.size()), picture});
        expanded.insert(expanded.end(), picture->tokens(), pad_);
    }
    tokens = std::move(expanded);
    return placed;
}

}  // namespace kapitsa
