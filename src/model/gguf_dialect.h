// GGUF files name settings and tensors in their own way, and store some tensors in another form than the
// rest of the world. A GgufDialect (arch/gguf/*.cpp) says for its architectures how: in data, so that
// neither the architecture itself nor anything else needs to know where a model came from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/checkpoint.h"
#include "formats/config_reader.h"

namespace kapitsa {

/// How a stored shape becomes the one that the architecture asks for. The bytes stay.
enum class GgufShape : std::uint8_t {
    same,
    one_row,            // [n] is [1, n]
    flat,               // [a, b] is [a * b]
    channels_in_front,  // [channels, taps] is [channels, taps, 1], as MLX turns convolutions
};

/// One tensor, or all of a module (".weight", ".bias", ".scale" stay behind it) where `theirs` has no such
/// end.
struct GgufName {
    std::string_view theirs, ours;  // of a block, after "blk.N." and after the layer's prefix
    GgufShape shape = GgufShape::same;
    Stored stored = Stored::plainly;
};

/// A checkpoint under translation.
class GgufTranslation {
public:
    /// `checkpoint`: as open_gguf gives it.
    explicit GgufTranslation(Checkpoint& checkpoint);

    const std::string& architecture() const { return architecture_; }
    /// Of the settings: errors name the key. `key("block_count")` is the architecture's own.
    const ConfigReader& settings() const { return settings_; }
    std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }
    bool has(const std::string& tensor) const { return checkpoint_->tensors.contains(tensor); }
    /// The shape of a tensor that must be there.
    Result<std::vector<std::uint64_t>> shape(const std::string& tensor) const;
    /// The rows of the embedding.
    Result<std::uint64_t> vocabulary() const;
    /// "eos" and its like, as config.json has them; null where there is none.
    Json token(std::string_view name) const;
    /// The token of the vocabulary that is written so; null where there is none.
    Json token_written(std::string_view text) const;
    /// A number of the architecture's own that files give once, or for each of `blocks`. Empty where absent.
    Result<std::vector<std::uint32_t>> by_block(std::string_view name, std::uint32_t blocks,
                                                WholeRange range) const;
    /// The one number other than 0 of a list by block; 0 where there is none.
    Result<std::uint32_t> the_number(std::string_view name, const std::vector<std::uint32_t>& numbers) const;
    /// A list of true and false, or 1 and 0, for each of `blocks` or more. It must be there.
    Result<std::vector<bool>> flags(std::string_view name, std::uint32_t blocks) const;

    /// Renames what `names` knows among the tensors outside of the blocks, or in those of block `block`: to
    /// `prefix` + ours. What it does not know stays as it is, and will be found to be left over.
    Status rename(std::span<const GgufName> names, const std::string& prefix);
    Status rename_block(std::uint32_t block, std::span<const GgufName> names, const std::string& prefix);
    /// The same for tensors whose names begin with `theirs`.
    Status rename_under(const std::string& theirs, std::span<const GgufName> names,
                        const std::string& prefix);
    /// Gives all tensors whose names begin so another beginning.
    Status rename_all(std::string_view theirs, const std::string& ours);
    /// Says a tensor once more under another name, where there is none of that name.
    void repeat(const std::string& tensor, const std::string& as);
    /// Cuts a matrix into matrices of these rows, which must be all it has.
    struct Part {
        std::string name;
        std::uint64_t rows;
    };
    Status split_rows(const std::string& tensor, std::span<const Part> parts);
    /// A list of whole numbers of 64 bits, of the architecture's own, as a tensor of I64.
    Status add_numbers(std::string_view name, const std::string& as);

    /// What config.json and preprocessor_config.json say, in place of the settings.
    void describe(Json config, Json preprocessor);

private:
    Status move(const std::string& from, const std::string& to);
    Status rename_one(const std::string& from, std::string_view local, std::span<const GgufName> names,
                      const std::string& prefix);

    Checkpoint* checkpoint_;
    std::string architecture_;
    std::shared_ptr<const Json> metadata_;  // what the settings are read from
    ConfigReader settings_;
};

struct GgufDialect {
    std::span<const std::string_view> architectures;  // what general.architecture calls them
    /// Renames the tensors. @return what config.json would say
    Result<Json> (*translate)(GgufTranslation& file);
    /// Renames the tensors of a vision tower (mmproj), which is a file of its own, and says what the model's
    /// folder would say of it: see GgufTranslation::describe. Refuses one that belongs to another model.
    /// @param model its config.json
    /// Null for a family that is not shown images.
    Status (*translate_tower)(GgufTranslation& tower, const Json& model) = nullptr;
};

/// Fault::unsupported, with the list of what is supported, for an architecture that no dialect knows.
Result<const GgufDialect*> find_gguf_dialect(std::string_view architecture);

/// A model folder, or a GGUF file in the words of such a folder. Fault::unsupported, with the list of what is
/// supported, for an architecture that no dialect knows.
Result<Checkpoint> open_model(const std::string& path);

}  // namespace kapitsa
