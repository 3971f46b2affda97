#include "support/gguf_conversion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

void apply(Change change, Array<float>& tensor) {
    for (float& value : tensor.values) {
        if (change == Change::add_one) value += 1.0f;
        if (change == Change::decay) value = -std::exp(value);
    }
    if (change == Change::taps) tensor.shape.erase(tensor.shape.begin() + 1);
    if (change == Change::drop_row) tensor.shape.erase(tensor.shape.begin());
    if (change == Change::add_column) tensor.shape.push_back(1);
}

}  // namespace

const Json& text_of(const Json& config) {
    return config.contains("text_config") ? config["text_config"] : config;
}
std::uint32_t number(const Json& text, const char* key) { return text[key].get<std::uint32_t>(); }

std::string without(std::string name, std::initializer_list<std::string_view> prefixes) {
    for (const std::string_view prefix : prefixes)
        if (name.starts_with(prefix)) return name.substr(prefix.size());
    return name;
}

std::pair<std::string, std::string> block_of(const std::string& local, std::uint32_t first) {
    if (!local.starts_with("layers.")) return {"", local};
    const std::size_t dot = local.find('.', 7);
    return {"blk." + std::to_string(std::stoul(local.substr(7)) + first) + ".", local.substr(dot + 1)};
}

Array<float> half_of(const Array<float>& both, std::size_t half) {
    Array<float> part{{}, {both.shape[0], both.shape[1] / 2, both.shape[2]}};
    const std::size_t each = both.shape[1] * both.shape[2];
    for (std::size_t expert = 0; expert < both.shape[0]; ++expert) {
        const auto from = both.values.begin() + std::ptrdiff_t(expert * each + half * each / 2);
        part.values.insert(part.values.end(), from, from + std::ptrdiff_t(each / 2));
    }
    return part;
}

Tensors stacked(Tensors tensors) {
    std::map<std::string, std::map<std::size_t, Array<float>>> stacks;
    Tensors all;
    for (auto& [name, tensor] : tensors) {
        const std::size_t at = name.find(".experts.");
        if (at == name.npos) {
            all.emplace_back(name, std::move(tensor));
            continue;
        }
        const std::size_t begin = at + 9, end = name.find('.', begin);
        std::string stack = name.substr(0, begin) + name.substr(end + 1);
        stack.resize(stack.size() - std::string_view(".weight").size());
        stacks[stack][std::stoul(name.substr(begin, end - begin))] = std::move(tensor);
    }
    for (const auto& [name, experts] : stacks) {
        const Array<float>& first = experts.begin()->second;
        Array<float> stack{{}, {experts.size(), first.shape[0], first.shape[1]}};
        for (const auto& [number, expert] : experts)
            stack.values.insert(stack.values.end(), expert.values.begin(), expert.values.end());
        all.emplace_back(name, std::move(stack));
    }
    return all;
}

void Converter::add(const std::string& block, const std::string& local, Array<float> tensor) {
    const auto row = std::ranges::find(rows_, local, &Row::ours);
    if (row == rows_.end()) return;  // a part that converters drop
    apply(row->change, tensor);
    const bool is_matrix = tensor.shape.size() >= 2 && row->change == Change::none;
    const bool fits = is_matrix && tensor.shape.back() % element_form(rounded_.value_or(type_)).values == 0;
    if (fits && rounded_) tensor.values = rounded_to(*rounded_, tensor.values);
    writer_.floats(block + row->theirs, fits ? type_ : ElementType::f32, tensor.shape, tensor.values);
}

}  // namespace kapitsa
