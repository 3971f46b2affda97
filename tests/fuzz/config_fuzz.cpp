// Any bytes as a config.json: python's words undone, then every question that the readers can ask of it.
#include "formats/config_reader.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "formats/python_json.h"
#include "formats/quantized_layers.h"

namespace {

using namespace kapitsa;

/// Asks for every field in every way. A value that comes back must keep its range.
void read_all(const ConfigReader& reader, int depth) {
    for (const auto& [key, value] : reader.json().items()) {
        if (const auto number = reader.number(key, {2, 9})) CHECK(*number >= 2 && *number <= 9);
        if (const auto real = reader.real(key, {0, 1})) CHECK(*real >= 0 && *real <= 1);
        if (const auto numbers = reader.number_or_numbers(key)) CHECK(numbers->size() <= value.size() + 1);
        CHECK(reader.has(key) || !reader.flag(key).has_value());
        (void)reader.text_or(key, "");
        (void)reader.texts(key);
        (void)reader.reals(key);
        if (const auto child = reader.child(key); child && depth < 32) read_all(*child, depth + 1);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text = without_python_words({reinterpret_cast<const char*>(data), size});
    const auto json = parse_json(text, {.bytes = 1u << 16, .depth = 32, .members = 256});
    if (!json || !json->is_object()) return 0;
    read_all(ConfigReader(*json, "config.json"), 0);
    if (const auto quantization = Quantization::read(*json))
        for (const char* module : {"lm_head", "model.layers.0.mlp.up_proj"})
            if (const auto form = quantization->of(module); form && *form) {
                CHECK((*form)->bits >= 2 && (*form)->bits <= 8 && (*form)->bits != 7);
                CHECK(128 % (*form)->group_size == 0 && (*form)->group_size >= 16);
            }
    // The same document in the place of either file.
    for (const Json* own : {static_cast<const Json*>(nullptr), &*json})
        if (const auto layers = QuantizedLayers::read(own ? Json::object() : *json, own)) {
            CHECK(layers->tile_rows() >= 1 && layers->tile_columns() >= 1);
            (void)layers->expect("model.layers.0.mlp.up_proj", {QuantizedForm::Kind::nvfp4, 16, 4});
        }
    return 0;
}
