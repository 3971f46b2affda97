#include "formats/quantization.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/config_reader.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

using Kind = QuantizedForm::Kind;

/// What a mode is where nothing else is said.
std::optional<QuantizedForm> form_of_mode(std::string_view mode) {
    if (mode == "affine") return QuantizedForm{};
    if (mode == "mxfp4") return QuantizedForm{Kind::mxfp4, 32, 4};
    if (mode == "mxfp8") return QuantizedForm{Kind::mxfp8, 32, 8};
    if (mode == "nvfp4") return QuantizedForm{Kind::nvfp4, 16, 4};
    return std::nullopt;
}

}  // namespace

std::string name_of(const QuantizedForm& form) {
    switch (form.kind) {
        case Kind::affine: return "affine of " + std::to_string(form.bits) + " bits";
        case Kind::mxfp4: return "mxfp4";
        case Kind::mxfp8: return "mxfp8";
        case Kind::nvfp4: return "nvfp4";
        case Kind::fp8: return "fp8";
    }
    return "";
}

Result<Quantization::Form> Quantization::read_form(const Json& object, const std::string& field) {
    const ConfigReader reader(object, field);
    // By statements: GCC leaks the members before a TRY that returns out of an initialiser list.
    Form form;
    form.field = field;
    form.mode = TRY(reader.text_or("mode", "affine"));
    // What an object leaves out MLX takes from its mode, not from the model's form.
    const QuantizedForm fallback = form_of_mode(form.mode).value_or(QuantizedForm{});
    form.group_size = TRY(reader.number_or("group_size", fallback.group_size));
    form.bits = TRY(reader.number_or("bits", fallback.bits));
    return form;
}

Result<Quantization> Quantization::read(const Json& config) {
    const ConfigReader root(config, "config.json");
    const std::string key = root.has("quantization") ? "quantization" : "quantization_config";
    Quantization quantization;
    if (!root.has(key)) return quantization;

    const ConfigReader section = TRY(root.child(key));
    const std::string field = root.field(key);
    if (key == "quantization_config" && section.has("quant_method")) return quantization;
    Form global = TRY(read_form(section.json(), field));
    global.group_size = TRY(section.number("group_size"));  // here they must be said
    global.bits = TRY(section.number("bits"));
    quantization.global_ = std::move(global);

    for (const auto& [module, value] : section.json().items()) {
        if (value.is_object())
            quantization.modules_[module] = TRY(read_form(value, field + "." + in_quotes(module)));
        else if (value.is_boolean())
            quantization.modules_[module] = value.get<bool>() ? quantization.global_ : std::nullopt;
    }
    return quantization;
}

Result<std::optional<QuantizedForm>> Quantization::of(std::string_view module) const {
    const auto exception = modules_.find(module);
    const std::optional<Form>& form = exception == modules_.end() ? global_ : exception->second;
    if (!form) return std::nullopt;

    const auto refuse = [&](const std::string& what, const std::string& supported) {
        return fail(Fault::unsupported, form->field + what + "; supported are " + supported);
    };
    std::optional<QuantizedForm> found = form_of_mode(form->mode);
    if (!found) return refuse(" has the mode " + in_quotes(form->mode), "affine, mxfp4, mxfp8 and nvfp4");
    const std::uint32_t bits = form->bits, group_size = form->group_size;
    const std::string has_bits = " has " + std::to_string(bits) + " bits",
                      has_groups = " has groups of " + std::to_string(group_size);
    if (found->kind == Kind::affine) {
        if (bits < 2 || bits > 8 || bits == 7) return refuse(has_bits, "2, 3, 4, 5, 6 and 8 bits");
        if (group_size != 32 && group_size != 64 && group_size != 128)
            return refuse(has_groups, "groups of 32, 64 and 128");
        return QuantizedForm{Kind::affine, group_size, bits};
    }
    if (bits != found->bits) return refuse(has_bits, std::to_string(found->bits) + " in this mode");
    if (group_size != found->group_size)
        return refuse(has_groups, "groups of " + std::to_string(found->group_size) + " in this mode");
    return found;
}

}  // namespace kapitsa
