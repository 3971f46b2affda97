#include "formats/quantization.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/config_reader.h"
#include "formats/in_quotes.h"

namespace kapitsa {

Result<Quantization::Form> Quantization::read_form(const Json& object, const std::string& field) {
    const ConfigReader reader(object, field);
    // By statements: GCC leaks the members before a TRY that returns out of an initialiser list.
    Form form;
    form.field = field;
    form.mode = TRY(reader.text_or("mode", "affine"));
    // What an object leaves out MLX takes from its own defaults, not from the model's form.
    form.affine.group_size = TRY(reader.number_or("group_size", form.affine.group_size));
    form.affine.bits = TRY(reader.number_or("bits", form.affine.bits));
    return form;
}

Result<Quantization> Quantization::read(const Json& config) {
    const ConfigReader root(config, "config.json");
    const std::string key = root.has("quantization") ? "quantization" : "quantization_config";
    Quantization quantization;
    if (!root.has(key)) return quantization;

    const ConfigReader section = TRY(root.child(key));
    const std::string field = root.field(key);
    if (key == "quantization_config" && section.has("quant_method")) {
        const std::string method = TRY(section.text("quant_method"));
        return fail(Fault::unsupported, field + " has the quant_method " + in_quotes(method) +
                                            "; weights quantised by MLX or not at all are supported");
    }
    Form global = TRY(read_form(section.json(), field));
    global.affine.group_size = TRY(section.number("group_size"));  // here they must be said
    global.affine.bits = TRY(section.number("bits"));
    quantization.global_ = std::move(global);

    for (const auto& [module, value] : section.json().items()) {
        if (value.is_object())
            quantization.modules_[module] = TRY(read_form(value, field + "." + in_quotes(module)));
        else if (value.is_boolean())
            quantization.modules_[module] = value.get<bool>() ? quantization.global_ : std::nullopt;
    }
    return quantization;
}

Result<std::optional<AffineForm>> Quantization::of(std::string_view module) const {
    const auto exception = modules_.find(module);
    const std::optional<Form>& form = exception == modules_.end() ? global_ : exception->second;
    if (!form) return std::nullopt;

    const auto refuse = [&](const std::string& what, const std::string& supported) {
        return fail(Fault::unsupported, form->field + what + "; supported are " + supported);
    };
    if (form->mode != "affine")
        return refuse(" has the mode " + in_quotes(form->mode), "weights of mode \"affine\"");
    const auto [group_size, bits] = form->affine;
    if (bits < 2 || bits > 8 || bits == 7)
        return refuse(" has " + std::to_string(bits) + " bits", "2, 3, 4, 5, 6 and 8 bits");
    if (group_size != 32 && group_size != 64 && group_size != 128)
        return refuse(" has groups of " + std::to_string(group_size), "groups of 32, 64 and 128");
    return form->affine;
}

}  // namespace kapitsa
