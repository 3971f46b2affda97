#include "cli/store.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/gguf_models.h"
#include "cli/models.h"
#include "formats/config_reader.h"
#include "formats/gguf_checkpoint.h"
#include "formats/in_quotes.h"
#include "formats/regular_file.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr const char* note_name = "import.json";

std::unexpected<Error> refused(const std::string& what, const std::error_code& error) {
    return fail(Fault::invalid_input, what + ": " + error.message());
}

constexpr std::size_t name_bytes_most = 200;

bool is_name(std::string_view name) { return !name.empty() && store_name(name) == name; }

/// Copies with a line of progress on terminals, where it is worth one.
class Copy {
public:
    explicit Copy(std::uint64_t bytes) : bytes_(bytes), shows_(bytes > 1u << 28 && is_terminal(stderr)) {}
    ~Copy() {
        if (shows_) std::fputs("\r\x1b[K", stderr);
    }

    Status file(const fs::path& from, const fs::path& to) {
        std::ifstream in(from, std::ios::binary);
        std::ofstream out(to, std::ios::binary | std::ios::trunc);
        if (!in || !out) return failed(in ? to : from);
        while (in) {
            in.read(buffer_.data(), std::streamsize(buffer_.size()));
            out.write(buffer_.data(), in.gcount());
            if (!out || in.bad()) return failed(in.bad() ? from : to);
            done_ += std::uint64_t(in.gcount());
            if (shows_)
                std::fprintf(stderr, "\rcopied %5.1f of %.1f GB", double(done_) / 1e9, double(bytes_) / 1e9);
        }
        out.close();
        return out ? Status(Done{}) : failed(to);
    }

private:
    static std::unexpected<Error> failed(const fs::path& path) {
        return fail(Fault::invalid_input, path.string() + ": " + std::strerror(errno ? errno : EIO));
    }
    std::vector<char> buffer_ = std::vector<char>(4u << 20);
    std::uint64_t bytes_, done_ = 0;
    bool shows_;
};

/// A folder that is made whole under another name first, and is gone unless it became the real one.
class Draft {
public:
    static Result<Draft> make(const fs::path& folder) {
        Draft draft(folder);
        std::error_code error;
        fs::create_directories(folder.parent_path(), error);
        if (error) return refused(folder.parent_path().string(), error);
        fs::remove_all(draft.path_, error);  // of an import that was broken off
        fs::create_directory(draft.path_, error);
        if (error) return refused(draft.path_.string(), error);
        return draft;
    }
    Draft(Draft&& other) noexcept
        : folder_(std::move(other.folder_)), path_(std::exchange(other.path_, fs::path())) {}
    Draft& operator=(Draft&&) = delete;
    ~Draft() {
        std::error_code ignored;
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }

    const fs::path& path() const { return path_; }
    Status finish() {
        std::error_code error;
        fs::rename(path_, folder_, error);
        if (error) return refused(folder_.string(), error);
        path_.clear();
        return Done{};
    }

private:
    explicit Draft(const fs::path& folder)
        : folder_(folder), path_(folder.parent_path() / ("." + folder.filename().string() + ".import")) {}
    fs::path folder_, path_;
};

/// The name of a part in the store: what tells that the parts belong together stays.
std::string part_name(const std::string& name, std::size_t part, std::size_t parts) {
    if (parts == 1) return name + ".gguf";
    char tail[64];  // of the widest numbers
    std::snprintf(tail, sizeof tail, "-%05zu-of-%05zu.gguf", part + 1, parts);
    return name + tail;
}

/// One part, in the cheapest way that works. @return how
Result<Kept> keep_file(const fs::path& from, const fs::path& to, Copy* copy) {
    if (copy) {
        TRY(copy->file(from, to));
        return Kept::copied;
    }
    std::error_code error;
    fs::create_hard_link(from, to, error);
    if (!error) return Kept::linked;
    error.clear();
    fs::create_symlink(from, to, error);
    if (error) return refused(to.string(), error);
    return Kept::referenced;
}

/// What the parts of a model's tower are called.
std::string tower_name(const std::string& name) { return "mmproj-" + name; }

Status write_note(const fs::path& folder, const std::vector<fs::path>& from, std::size_t tower_parts,
                  Kept kept) {
    Json note = {{"kept", kept_text(kept)}, {"from", Json::array()}, {"tower_parts", tower_parts}};
    for (const fs::path& path : from) note["from"].push_back(path.string());
    std::ofstream file(folder / note_name);
    file << dump_json(note) << '\n';
    file.close();
    if (file) return Done{};
    return fail(Fault::invalid_input, (folder / note_name).string() + " cannot be written (" +
                                          std::strerror(errno ? errno : EIO) +
                                          "): is there room, and may you write there?");
}

/// The parts of the tower that was imported with the model; none where the note does not say so.
std::vector<fs::path> imported_tower(const fs::path& folder) {
    constexpr JsonLimits limits = {.bytes = 16u << 20, .depth = 8, .members = 1u << 16};
    std::vector<fs::path> files;
    const auto text = read_text_file((folder / note_name).string(), limits.bytes);
    const auto note = text ? parse_json(*text, limits) : fail(text.error());
    if (!note || !note->is_object()) return files;
    const auto parts = ConfigReader(*note, note_name).number_or("tower_parts", 0, {0, 10'000});
    for (std::size_t i = 0; parts && i < *parts; ++i)
        files.push_back(folder / part_name(tower_name(folder.filename().string()), i, *parts));
    return files;
}

Result<fs::path> place_of(const std::string& name) {
    const std::string folder = models_folder();
    if (folder.empty()) return fail(Fault::invalid_input, how_to_add_models());
    if (!is_name(name))
        return fail(Fault::invalid_input, in_quotes(name) +
                                              " is no name for a model: letters, digits, \".\", "
                                              "\"-\" and \"_\" make one, at most " +
                                              std::to_string(name_bytes_most) + " of them");
    return fs::path(folder) / name;
}

/// The note and the model's files, and the folder unless somebody has put more there.
Status remove_import(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> made{folder / note_name};  // read before it goes
    for (const fs::path& file : imported_tower(folder)) made.push_back(file);
    for (const std::string& file : gguf_models_in(folder.string()))
        for (const std::string& part : gguf_parts(file)) made.emplace_back(part);
    for (const fs::path& file : made) {
        fs::remove(file, error);
        if (error) return refused(file.string(), error);
    }
    fs::remove(folder, error);
    if (error == std::errc::directory_not_empty)
        log_warning(folder.string() + " stays: somebody has put more there than the model");
    else if (error)
        return refused(folder.string(), error);
    return Done{};
}

}  // namespace

const char* kept_text(Kept kept) {
    switch (kept) {
        case Kept::linked: return "linked";
        case Kept::referenced: return "referenced";
        case Kept::copied: return "copied";
    }
    return "";
}

std::string store_name(std::string_view wanted) {
    std::string name;
    for (const char c : wanted.substr(0, name_bytes_most)) {
        const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                                c == '.' || c == '-' || c == '_';
        name += is_allowed ? c : '-';
    }
    if (name.starts_with('.')) name[0] = '-';
    return name;
}

Result<Kept> keep_model(const std::vector<std::string>& files, const std::vector<std::string>& tower,
                        const std::string& name, bool copy) {
    const fs::path folder = TRY(place_of(name));
    if (name == built_in_name)
        return fail(Fault::invalid_input,
                    name + " is the built-in model: --name gives this one another name");
    std::error_code error;
    if (fs::exists(fs::symlink_status(folder, error)))
        return fail(Fault::invalid_input, "a model is called " + name +
                                              " already: --name gives this one another"
                                              " name, kapitsa rm " +
                                              name + " removes that one");
    Draft draft = TRY(Draft::make(folder));
    struct File {
        fs::path from;
        std::string to;
    };
    std::vector<File> all;
    for (std::size_t i = 0; i < files.size(); ++i)
        all.push_back({files[i], part_name(name, i, files.size())});
    for (std::size_t i = 0; i < tower.size(); ++i)
        all.push_back({tower[i], part_name(tower_name(name), i, tower.size())});
    std::vector<fs::path> from;
    std::uint64_t bytes = 0;
    for (const File& file : all) {
        from.push_back(fs::canonical(file.from, error));
        if (error) return refused(file.from.string(), error);
        bytes += fs::file_size(from.back(), error);
    }
    std::optional<Copy> copying;
    if (copy) copying.emplace(bytes);
    Kept kept = copy ? Kept::copied : Kept::linked;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Kept one = TRY(keep_file(from[i], draft.path() / all[i].to, copying ? &*copying : nullptr));
        if (one == Kept::referenced) kept = one;
    }
    TRY(write_note(draft.path(), from, tower.size(), kept));
    TRY(draft.finish());
    return kept;
}

Status remove_model(const std::string& name) {
    const fs::path folder = TRY(place_of(name));
    std::error_code error;
    const bool there = fs::exists(fs::symlink_status(folder, error));
    if (!there && name == built_in_name)
        return fail(Fault::invalid_input,
                    name + " is the built-in model, which comes with the program and stays");
    for (const std::string& file : there ? std::vector<std::string>() : gguf_models_in(models_folder()))
        if (gguf_name(file) == name)
            return fail(Fault::invalid_input,
                        file + " was not made by kapitsa import: remove the file yourself");
    if (!there)
        return fail(Fault::invalid_input, "no model is called " + name + " in " + models_folder() +
                                              ": kapitsa list shows what is here");
    if (fs::is_symlink(fs::symlink_status(folder, error)) || !fs::is_regular_file(folder / note_name, error))
        return fail(Fault::invalid_input,
                    folder.string() + " was not made by kapitsa import: remove the folder yourself");
    return remove_import(folder);
}

}  // namespace kapitsa
