#include "make_checkpoint/writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace kapitsa::random_checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t buffer_bytes = 1 << 20;

std::unexpected<Error> cannot(const std::string& what, const fs::path& path) {
    return fail(Fault::device, what + " " + path.string() + ": " + std::strerror(errno));
}

Status write_text(const fs::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) return cannot("cannot write", path);
    return Done{};
}

using Shard = std::vector<Piece>;

/// Pieces in their order, as many to a shard as it may hold.
std::vector<Shard> sharded(const Plan& plan, const Form& form, std::uint64_t shard_bytes) {
    std::vector<Shard> shards(1);
    std::uint64_t held = 0;
    for (const PlannedTensor& tensor : plan.tensors)
        for (Piece& piece : pieces_of(tensor, form)) {
            if (held > 0 && held + piece.bytes > shard_bytes) {
                shards.emplace_back();
                held = 0;
            }
            held += piece.bytes;
            shards.back().push_back(std::move(piece));
        }
    // As the format's own library does: wide elements first, so that all of them lie aligned.
    for (Shard& shard : shards)
        std::ranges::stable_sort(shard, std::ranges::greater(),
                                 [](const Piece& piece) { return element_bytes(piece.type); });
    return shards;
}

class Writer {
public:
    Writer(const WriteOptions& options, std::uint64_t bytes) : options_(options), bytes_(bytes) {}

    Status write(const fs::path& path, const Shard& shard) {
        std::ofstream file(path, std::ios::binary);
        const std::string header = header_of(shard);
        const std::uint64_t length = header.size();
        file.write(reinterpret_cast<const char*>(&length), 8) << header;
        for (const Piece& piece : shard) {
            Draw draw(piece, options_.seed);
            for (std::uint64_t left = piece.bytes; left > 0;) {
                const auto part = std::span(buffer_).first(std::min<std::uint64_t>(left, buffer_.size()));
                draw.next(part);
                file.write(reinterpret_cast<const char*>(part.data()), std::streamsize(part.size()));
                left -= part.size();
                options_.progress(done_ += part.size(), bytes_);
            }
            if (!file) return cannot("cannot write", path);
        }
        if (!file.flush()) return cannot("cannot write", path);
        return Done{};
    }

private:
    static std::string header_of(const Shard& shard) {
        Json header{{"__metadata__", {{"format", "pt"}}}};
        std::string text = header.dump();
        text.pop_back();
        std::uint64_t at = 0;
        for (const Piece& piece : shard) {  // a text at once: an ordered object looks at all members for each
            const Json one{{"dtype", element_name(piece.type)},
                           {"shape", piece.shape},
                           {"data_offsets", {at, at + piece.bytes}}};
            text += "," + Json(piece.name).dump() + ":" + one.dump();
            at += piece.bytes;
        }
        text += "}";
        return text + std::string((8 - text.size() % 8) % 8, ' ');
    }

    const WriteOptions& options_;
    std::uint64_t bytes_, done_ = 0;
    std::vector<std::byte> buffer_ = std::vector<std::byte>(buffer_bytes);
};

std::string shard_name(std::size_t index, std::size_t count) {
    if (count == 1) return "model.safetensors";
    const auto five = [](std::size_t number) {
        const std::string digits = std::to_string(number);
        return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
    };
    return "model-" + five(index + 1) + "-of-" + five(count) + ".safetensors";
}

Status write_index(const fs::path& folder, const std::vector<Shard>& shards, std::uint64_t bytes) {
    std::string text = "{\"metadata\":{\"total_size\":" + std::to_string(bytes) + "},\"weight_map\":{";
    bool first = true;
    for (std::size_t i = 0; i < shards.size(); ++i)
        for (const Piece& piece : shards[i]) {
            text += (first ? "" : ",") + Json(piece.name).dump() + ":" +
                    Json(shard_name(i, shards.size())).dump();
            first = false;
        }
    return write_text(folder / "model.safetensors.index.json", text + "}}");
}

Status copy_tokenizer(const fs::path& from, const fs::path& to) {
    for (const char* name :
         {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"}) {
        std::error_code failed;
        if (!fs::exists(from / name, failed)) continue;
        if (!fs::copy_file(from / name, to / name, failed))
            return fail(Fault::device, "cannot copy " + (from / name).string() + ": " + failed.message());
    }
    return Done{};
}

}  // namespace

Result<std::uint64_t> write_checkpoint(const Plan& plan, const Form& form, const WriteOptions& options) {
    const std::vector<Shard> shards = sharded(plan, form, options.shard_bytes);
    std::uint64_t bytes = 0;
    for (const Shard& shard : shards)
        for (const Piece& piece : shard) bytes += piece.bytes;
    const fs::path folder = options.folder;
    std::error_code failed;
    if (!fs::create_directories(folder, failed))
        return fail(Fault::invalid_input,
                    folder.string() + (failed ? ": " + failed.message() : " is there already"));
    const auto space = fs::space(folder, failed);
    if (!failed && space.available < bytes + (bytes >> 6))
        return fail(Fault::out_of_memory, folder.string() + " has room for " +
                                              std::to_string(space.available >> 20) +
                                              " MiB; the checkpoint takes " + std::to_string(bytes >> 20));
    Json config = plan.config;
    describe(form, config);
    TRY(write_text(folder / "config.json", config.dump(1) + "\n"));
    if (!options.tokenizer.empty()) TRY(copy_tokenizer(options.tokenizer, folder));
    Writer writer(options, bytes);
    for (std::size_t i = 0; i < shards.size(); ++i)
        TRY(writer.write(folder / shard_name(i, shards.size()), shards[i]));
    if (shards.size() > 1) TRY(write_index(folder, shards, bytes));
    return bytes;
}

}  // namespace kapitsa::random_checkpoint
