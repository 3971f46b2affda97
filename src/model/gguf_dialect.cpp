#include "model/gguf_dialect.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/gguf_checkpoint.h"
#include "formats/gguf_tokenizer.h"
#include "formats/in_quotes.h"

namespace kapitsa {

// A row for each file in arch/gguf/, written by CMake.
namespace gguf {
#define GGUF_DIALECT(name) extern const GgufDialect name;
#include "gguf_dialects.inc"
#undef GGUF_DIALECT
}  // namespace gguf

namespace {

const GgufDialect* const dialects[] = {
#define GGUF_DIALECT(name) &gguf::name,
#include "gguf_dialects.inc"
#undef GGUF_DIALECT
};

constexpr std::string_view module_ends[] = {".weight", ".bias", ".scale", ".input_scale"};

/// The row for a tensor, and what of its name stays behind the row's.
struct Found {
    const GgufName* row = nullptr;
    std::string_view end;
};
Found find_row(std::span<const GgufName> names, std::string_view local) {
    if (const auto whole = std::ranges::find(names, local, &GgufName::theirs); whole != names.end())
        return {&*whole, ""};
    for (const std::string_view end : module_ends) {
        if (!local.ends_with(end)) continue;
        const std::string_view module = local.substr(0, local.size() - end.size());
        if (const auto row = std::ranges::find(names, module, &GgufName::theirs); row != names.end())
            return {&*row, end};
    }
    return {};
}

Status reshape(TensorEntry& tensor, GgufShape shape) {
    const auto want = [&](std::size_t rank) -> Status {
        if (tensor.shape.size() == rank) return Done{};
        return fail(Fault::corrupt_file, "tensor " + in_quotes(tensor.name) + " has " +
                                             std::to_string(tensor.shape.size()) +
                                             " dimensions; it must have " + std::to_string(rank));
    };
    switch (shape) {
        case GgufShape::same: return Done{};
        case GgufShape::one_row:
            if (tensor.shape.size() == 2 && tensor.shape[0] == 1) return Done{};
            TRY(want(1));
            tensor.shape.insert(tensor.shape.begin(), 1);
            return Done{};
        case GgufShape::flat:
            while (tensor.shape.size() > 1) {
                tensor.shape[tensor.shape.size() - 2] *= tensor.shape.back();  // read_gguf saw that it fits
                tensor.shape.pop_back();
            }
            return Done{};
        case GgufShape::channels_in_front:
            TRY(want(2));
            tensor.shape.push_back(1);
            return Done{};
    }
    return Done{};
}

/// A GGUF file with the names and settings of its architecture.
Result<Checkpoint> open_translated(const std::string& path) {
    Checkpoint checkpoint = TRY(open_gguf(path));
    const auto translated = [&]() -> Status {
        const GgufDialect* dialect = TRY(find_gguf_dialect(checkpoint.gguf->text("general.architecture")));
        GgufTranslation translation(checkpoint);
        checkpoint.config = std::make_shared<const Json>(TRY(dialect->translate(translation)));
        return Done{};
    }();
    if (!translated) return fail(Error(translated.error()).because(path));
    return checkpoint;
}

}  // namespace

Result<const GgufDialect*> find_gguf_dialect(std::string_view architecture) {
    std::string known;
    for (const GgufDialect* dialect : dialects) {
        if (std::ranges::find(dialect->architectures, architecture) != dialect->architectures.end())
            return dialect;
        for (const std::string_view name : dialect->architectures)
            (known += known.empty() ? "" : ", ") += name;
    }
    return fail(Fault::unsupported, "metadata \"general.architecture\" is " + in_quotes(architecture) +
                                        "; GGUF files are read of these architectures: " + known);
}

GgufTranslation::GgufTranslation(Checkpoint& checkpoint)
    : checkpoint_(&checkpoint),
      architecture_(checkpoint.gguf->text("general.architecture")),
      metadata_(checkpoint.config),
      settings_(*metadata_, "metadata") {}

Result<std::vector<std::uint64_t>> GgufTranslation::shape(const std::string& tensor) const {
    const auto found = checkpoint_->tensors.find(tensor);
    if (found == checkpoint_->tensors.end())
        return fail(Fault::corrupt_file, "the tensor " + tensor + " is missing");
    return found->second.shape;
}

Result<std::uint64_t> GgufTranslation::vocabulary() const {
    const auto embedding = TRY(shape("token_embd.weight"));
    if (embedding.size() == 2) return embedding[0];
    return fail(Fault::corrupt_file, "token_embd.weight is no matrix");
}

Result<std::vector<std::uint32_t>> GgufTranslation::by_block(std::string_view name, std::uint32_t blocks,
                                                             WholeRange range) const {
    auto numbers = TRY(settings_.number_or_numbers(key(name), range));
    if (numbers.size() == 1) numbers.resize(blocks, numbers[0]);
    if (!numbers.empty() && numbers.size() != blocks)
        return fail(Fault::corrupt_file, settings_.field(key(name)) + " has " +
                                             std::to_string(numbers.size()) + " numbers for " +
                                             std::to_string(blocks) + " blocks");
    return numbers;
}

Result<std::uint32_t> GgufTranslation::the_number(std::string_view name,
                                                  const std::vector<std::uint32_t>& numbers) const {
    std::uint32_t found = 0;
    for (const std::uint32_t number : numbers) {
        if (number != 0 && found != 0 && number != found)
            return fail(Fault::unsupported, settings_.field(key(name)) + " is " + std::to_string(found) +
                                                " in one layer and " + std::to_string(number) +
                                                " in another; this family has one for all");
        if (number != 0) found = number;
    }
    return found;
}

Result<std::vector<bool>> GgufTranslation::flags(std::string_view name, std::uint32_t blocks) const {
    const std::string field = settings_.field(key(name));
    const auto list = settings_.json().find(key(name));
    if (list == settings_.json().end() || !list->is_array() || list->size() < blocks)
        return fail(Fault::corrupt_file, field + " is no list of " + std::to_string(blocks) + " layers");
    std::vector<bool> flags;
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const Json& flag = (*list)[i];
        if (!flag.is_boolean() && !flag.is_number_integer())
            return fail(Fault::corrupt_file, field + " holds what is neither true nor false");
        flags.push_back(flag.is_boolean() ? flag.get<bool>() : flag != 0);
    }
    return flags;
}

Json GgufTranslation::token(std::string_view name) const {
    const auto token = gguf_token(*checkpoint_->gguf, name);
    return token && *token ? Json(**token) : Json(nullptr);
}

Json GgufTranslation::token_written(std::string_view text) const {
    const GgufValue* tokens = checkpoint_->gguf->find("tokenizer.ggml.tokens");
    if (!tokens || !tokens->is_list || tokens->type != GgufType::text) return nullptr;
    const auto texts = texts_of(*tokens);
    const auto found = std::ranges::find(texts, text);
    return found == texts.end() ? Json(nullptr) : Json(found - texts.begin());
}

Status GgufTranslation::rename(std::span<const GgufName> names, const std::string& prefix) {
    std::vector<std::string> outside;
    for (const auto& [name, tensor] : checkpoint_->tensors)
        if (!name.starts_with("blk.")) outside.push_back(name);
    for (const std::string& name : outside) TRY(rename_one(name, name, names, prefix));
    return Done{};
}

Status GgufTranslation::rename_block(std::uint32_t block, std::span<const GgufName> names,
                                     const std::string& prefix) {
    return rename_under("blk." + std::to_string(block) + ".", names, prefix);
}

Status GgufTranslation::rename_under(const std::string& theirs, std::span<const GgufName> names,
                                     const std::string& prefix) {
    std::vector<std::string> inside;
    for (const auto& [name, tensor] : checkpoint_->tensors)
        if (name.starts_with(theirs)) inside.push_back(name);
    for (const std::string& name : inside)
        TRY(rename_one(name, std::string_view(name).substr(theirs.size()), names, prefix));
    return Done{};
}

Status GgufTranslation::rename_one(const std::string& from, std::string_view local,
                                   std::span<const GgufName> names, const std::string& prefix) {
    const Found found = find_row(names, local);
    if (!found.row) return Done{};
    const std::string to = prefix + std::string(found.row->ours) + std::string(found.end);
    TRY(reshape(checkpoint_->tensors.at(from), found.row->shape));
    checkpoint_->tensors.at(from).stored = found.row->stored;
    return move(from, to);
}

Status GgufTranslation::move(const std::string& from, const std::string& to) {
    if (from == to) return Done{};
    if (checkpoint_->tensors.contains(to))
        return fail(Fault::corrupt_file, "tensor " + in_quotes(from) + " is there under another name, too");
    auto node = checkpoint_->tensors.extract(from);
    node.key() = to;
    node.mapped().name = to;
    checkpoint_->tensors.insert(std::move(node));
    return Done{};
}

Status GgufTranslation::rename_all(std::string_view theirs, const std::string& ours) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : checkpoint_->tensors)
        if (name.starts_with(theirs)) names.push_back(name);
    for (const std::string& name : names) TRY(move(name, ours + name.substr(theirs.size())));
    return Done{};
}

void GgufTranslation::repeat(const std::string& tensor, const std::string& as) {
    const auto found = checkpoint_->tensors.find(tensor);
    if (found == checkpoint_->tensors.end() || checkpoint_->tensors.contains(as)) return;
    TensorEntry entry = found->second;
    entry.name = as;
    checkpoint_->tensors.emplace(as, std::move(entry));
}

Status GgufTranslation::split_rows(const std::string& tensor, std::span<const Part> parts) {
    const auto found = checkpoint_->tensors.find(tensor);
    if (found == checkpoint_->tensors.end()) return Done{};
    const TensorEntry whole = found->second;
    std::uint64_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    if (rows == 0 || whole.shape.size() != 2 || whole.shape[0] != rows)
        return fail(Fault::corrupt_file,
                    "tensor " + in_quotes(tensor) + " is no matrix of " + std::to_string(rows) + " rows");
    const std::uint64_t row_bytes = whole.bytes.size() / rows;
    Bytes left = whole.bytes;
    for (const Part& part : parts) {
        TensorEntry entry = whole;
        entry.name = part.name;
        entry.shape[0] = part.rows;
        entry.bytes = left.first(part.rows * row_bytes);
        left = left.subspan(part.rows * row_bytes);
        checkpoint_->tensors.insert_or_assign(part.name, std::move(entry));
    }
    checkpoint_->tensors.erase(tensor);
    return Done{};
}

Status GgufTranslation::add_numbers(std::string_view name, const std::string& as) {
    const GgufValue* value = checkpoint_->gguf->find(key(name));
    if (!value || !value->is_list || (value->type != GgufType::u64 && value->type != GgufType::i64))
        return fail(Fault::corrupt_file,
                    settings_.field(key(name)) + " must be a list of whole numbers of 64 bits");
    TensorEntry entry;
    entry.name = as;
    entry.type = ElementType::i64;  // who reads it refuses what has the highest bit set
    entry.shape = {value->count};
    entry.bytes = value->bytes;
    checkpoint_->tensors.insert_or_assign(as, std::move(entry));
    return Done{};
}

void GgufTranslation::describe(Json config, Json preprocessor) {
    checkpoint_->config = std::make_shared<const Json>(std::move(config));
    checkpoint_->preprocessor_config = std::make_shared<const Json>(std::move(preprocessor));
}

Result<Checkpoint> open_model(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) return open_checkpoint(path);
    if (!is_gguf(path) && std::filesystem::is_regular_file(path, ignored))
        return fail(Fault::invalid_input, path + " is no GGUF file: it does not begin with \"GGUF\"");
    return open_translated(path);
}

}  // namespace kapitsa
