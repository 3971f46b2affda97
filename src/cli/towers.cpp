#include "cli/towers.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/log.h"
#include "cli/gguf_models.h"
#include "model/gguf_tower.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

/// "Some-Model.Q8_0" as some, model, q8, 0.
std::vector<std::string> words_of(std::string_view name) {
    std::vector<std::string> words(1);
    for (const char c : name) {
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (c >= 'A' && c <= 'Z')
            words.back() += char(c - 'A' + 'a');
        else if (is_letter)
            words.back() += c;
        else
            words.emplace_back();
    }
    std::erase_if(words, [](const std::string& word) { return word.empty() || word == "mmproj"; });
    return words;
}

std::size_t agreement(const std::string& a, const std::string& b) {
    const auto ours = words_of(fs::path(a).stem().string()), theirs = words_of(fs::path(b).stem().string());
    return std::size_t(std::ranges::mismatch(ours, theirs).in1 - ours.begin());
}

std::size_t rank_of(ElementType type, ElementType of_model) {
    if (type == of_model) return 0;
    constexpr ElementType order[] = {ElementType::bf16, ElementType::f16, ElementType::f32};
    return 1 + std::size_t(std::ranges::find(order, type) - std::begin(order));
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

/// What is said to whoever sends an image must not tell where models lie.
std::string without_folder(std::string message, const std::string& file) {
    if (message.starts_with(file)) message.replace(0, file.size(), file_name(file));
    return message;
}

}  // namespace

ElementType main_type(const Checkpoint& checkpoint) {
    std::map<ElementType, std::uint64_t> bytes;
    for (const auto& [name, tensor] : checkpoint.tensors)
        if (tensor.shape.size() == 2 || tensor.shape.size() == 3) bytes[tensor.type] += tensor.bytes.size();
    const auto most = std::ranges::max_element(bytes, {}, [](const auto& type) { return type.second; });
    return most == bytes.end() ? ElementType::f32 : most->first;
}

TowerChoice choose_tower(const Checkpoint& model, const std::vector<std::string>& files) {
    TowerChoice choice;
    const ElementType of_model = main_type(model);
    const auto is_better = [&](const Checkpoint& a, const Checkpoint& b) {
        const auto by_name = agreement(a.path, model.path), other = agreement(b.path, model.path);
        if (by_name != other) return by_name > other;
        return rank_of(main_type(a), of_model) < rank_of(main_type(b), of_model);
    };
    for (const std::string& file : files) {
        auto tower = open_tower(model, file);
        if (!tower && choice.refused.empty()) choice.refused = without_folder(tower.error().message, file);
        if (!tower) continue;
        ++choice.fitting;
        if (!choice.tower || is_better(*tower, *choice.tower)) choice.tower = std::move(*tower);
    }
    if (choice.tower) choice.refused.clear();
    return choice;
}

Result<TowerChoice> choose_tower(const Checkpoint& model, const std::string& wanted) {
    TowerChoice choice;
    if (wanted == no_tower) return choice;
    if (wanted.empty() && !model.gguf) return choice;
    if (wanted.empty()) return choose_tower(model, vision_towers_beside(model.path));
    choice.tower = TRY(open_tower(model, wanted));
    choice.fitting = 1;
    return choice;
}

Result<std::string> give_tower(Checkpoint& model, const std::string& wanted) {
    TowerChoice choice = TRY(choose_tower(model, wanted));
    if (!choice.tower) {
        if (choice.refused.empty()) return std::string();
        model.blind_because = "the vision tower that lies beside the model is not taken: " + choice.refused;
        // Among several models it may well be another's.
        const bool is_meant = gguf_models_in(fs::absolute(model.path).parent_path().string()).size() == 1;
        log(is_meant ? LogLevel::warning : LogLevel::info, model.blind_because);
        return std::string();
    }
    std::string told = "it is shown images by " + file_name(choice.tower->path);
    if (choice.fitting > 1)
        told += " (" + std::to_string(choice.fitting) + " lie beside it: --mmproj FILE takes another)";
    TRY(add_tower(model, std::move(*choice.tower)));
    return told;
}

}  // namespace kapitsa
