#include "formats/quantized_layers.h"

#include <nlohmann/json.hpp>

#include "formats/config_reader.h"
#include "formats/in_quotes.h"

namespace kapitsa {

using Kind = QuantizedForm::Kind;

bool fits(std::string_view pattern, std::string_view name) {
    std::size_t p = 0, n = 0, star = pattern.npos, tried = 0;  // the last *, and where its characters may end
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            tried = n;
        } else if (p < pattern.size() && pattern[p] == name[n]) {
            ++p, ++n;
        } else if (star != pattern.npos) {
            p = star + 1;
            n = ++tried;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

std::optional<std::string> pattern_of_regex(std::string_view regex) {
    if (regex.starts_with('^')) regex.remove_prefix(1);
    const bool whole = regex.ends_with('$');
    if (whole) regex.remove_suffix(1);
    std::string pattern;
    for (std::size_t i = 0; i < regex.size(); ++i) {
        const char c = regex[i], next = i + 1 < regex.size() ? regex[i + 1] : '\0';
        if (c == '.' && next == '*') {
            pattern += '*';
            ++i;
        } else if (c == '\\' && (next == '.' || next == '-')) {
            pattern += next;
            ++i;
        } else if (std::string_view("\\*+?()[]{}|^$").find(c) != std::string_view::npos) {
            return std::nullopt;
        } else {
            pattern += c;  // a dot that stands for any character stands for itself in all names we know
        }
    }
    return whole ? pattern : pattern + "*";
}

/// Reads one section, whoever wrote it, into rules.
class QuantizedLayers::Reader {
public:
    explicit Reader(QuantizedLayers& layers) : layers_(layers) {}

    /// @param section hf_quant_config.json's "quantization", or quantization_config of config.json
    Status modelopt(const ConfigReader& section) {
        const std::string algorithm = TRY(section.text_or("quant_algo", ""));
        if (section.has("quantized_layers")) TRY(list_layers(TRY(section.child("quantized_layers"))));
        for (const char* key : {"exclude_modules", "ignore"}) TRY(leave_out(section, key));
        for (const char* key : {"has_zero_point", "pre_quant_scale"})
            if (TRY(section.flag_or(key, false)))
                return fail(Fault::unsupported,
                            section.field(key) + " is true; weights with it are not computed");
        if (algorithm == "MIXED_PRECISION" || algorithm.empty())
            return section.has("config_groups") ? groups(section, "") : Done{};
        const QuantizedForm form = TRY(form_of_algorithm(section, algorithm));
        add("*", form, section.field("quant_algo"));
        return Done{};
    }

    Status compressed_tensors(const ConfigReader& section) {
        TRY(leave_out(section, "ignore"));
        if (section.has("sparsity_config")) {
            const ConfigReader sparsity = TRY(section.child("sparsity_config"));
            if (TRY(sparsity.text_or("format", "dense")) != "dense")
                return fail(Fault::unsupported, sparsity.field("format") + " must be \"dense\"");
        }
        return groups(section, TRY(section.text_or("format", "")));
    }

    Status fp8(const ConfigReader& section) {
        if (const std::string format = TRY(section.text_or("fmt", "e4m3")); format != "e4m3")
            return fail(Fault::unsupported,
                        section.field("fmt") + " is " + in_quotes(format) + "; \"e4m3\" is supported");
        TRY(leave_out(section, "modules_to_not_convert"));
        if (section.has("weight_block_size")) TRY(tile(section, "weight_block_size"));
        add("*", QuantizedForm{Kind::fp8, 0, 8}, section.field("quant_method"));
        return Done{};
    }

private:
    void add(std::string pattern, std::optional<QuantizedForm> form, std::string field) {
        layers_.rules_.push_back({std::move(pattern), form, std::move(field)});
    }

    Status leave_out(const ConfigReader& section, const char* key) {
        if (!section.has(key)) return Done{};
        for (const std::string& name : TRY(section.texts(key))) {
            if (!name.starts_with("re:"))
                add(name, std::nullopt, section.field(key));
            else if (auto pattern = pattern_of_regex(std::string_view(name).substr(3)))
                add(std::move(*pattern), std::nullopt, section.field(key));
        }
        return Done{};
    }

    Status tile(const ConfigReader& section, const char* key) {
        const auto sides = TRY(section.numbers(key));
        if (sides.size() != 2)
            return fail(Fault::corrupt_file, section.field(key) + " must be two numbers, rows and columns");
        layers_.tile_rows_ = sides[0];
        layers_.tile_columns_ = sides[1];
        return Done{};
    }

    static Result<QuantizedForm> form_of_algorithm(const ConfigReader& where, const std::string& algorithm) {
        if (algorithm == "NVFP4" || algorithm == "W4A16_NVFP4" || algorithm == "NVFP4_AWQ") {
            const std::uint32_t group = TRY(where.number_or("group_size", 16));
            if (group == 16) return QuantizedForm{Kind::nvfp4, 16, 4};
            return fail(Fault::unsupported, where.field("group_size") + " is " + std::to_string(group) +
                                                "; NVFP4 has groups of 16");
        }
        if (algorithm == "FP8" || algorithm == "FP8_PER_CHANNEL_PER_TOKEN" || algorithm == "FP8_PB_WO")
            return QuantizedForm{Kind::fp8, 0, 8};
        if (algorithm == "MXFP8") return QuantizedForm{Kind::mxfp8, 32, 8};
        return fail(Fault::unsupported,
                    where.field("quant_algo") + " is " + in_quotes(algorithm) +
                        "; supported are NVFP4, W4A16_NVFP4, NVFP4_AWQ, FP8, FP8_PER_CHANNEL_PER_TOKEN, "
                        "FP8_PB_WO, MXFP8 and MIXED_PRECISION of these");
    }

    Status list_layers(const ConfigReader& list) {
        for (const auto& [module, value] : list.json().items()) {
            const std::string field = list.field(in_quotes(module));
            if (!value.is_object()) return fail(Fault::corrupt_file, field + " must be an object");
            const ConfigReader layer(value, field);
            add(module, TRY(form_of_algorithm(layer, TRY(layer.text("quant_algo")))), field);
        }
        return Done{};
    }

    /// config_groups: {"group_0": {"targets": ["Linear"], "weights": {...}}}.
    Status groups(const ConfigReader& section, const std::string& format) {
        const ConfigReader all = TRY(section.child("config_groups"));
        for (const auto& [name, value] : all.json().items()) {
            if (!value.is_object()) return fail(Fault::corrupt_file, all.field(name) + " must be an object");
            const ConfigReader group(value, all.field(name));
            std::string own = TRY(group.text_or("format", format));
            if (own == "mixed-precision") own.clear();
            TRY(check_format(group, own));
            if (!group.has("weights")) continue;  // of activations alone
            const QuantizedForm form = TRY(form_of_weights(TRY(group.child("weights"))));
            for (const std::string& target : TRY(group.texts("targets"))) {
                if (target.starts_with("re:")) {
                    if (auto pattern = pattern_of_regex(std::string_view(target).substr(3)))
                        add(std::move(*pattern), form, group.field("targets"));
                } else if (target.find_first_of(".*") == target.npos) {
                    add("*", form, group.field("targets"));  // a class of modules: "Linear"
                } else {
                    add(target, form, group.field("targets"));
                }
            }
        }
        return Done{};
    }

    static Status check_format(const ConfigReader& where, const std::string& format) {
        for (const char* known : {"", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "float-quantized",
                                  "naive-quantized", "dense"})
            if (format == known) return Done{};
        return fail(Fault::unsupported, where.field("format") + " is " + in_quotes(format) +
                                            "; supported are nvfp4-pack-quantized, mxfp4-pack-quantized, "
                                            "float-quantized and naive-quantized");
    }

    Result<QuantizedForm> form_of_weights(const ConfigReader& weights) {
        const std::string type = TRY(weights.text_or("type", "float"));
        const std::uint32_t bits = TRY(weights.number("num_bits")),
                            group = TRY(weights.number_or("group_size", 0, {0, 1u << 20}));
        if (!TRY(weights.flag_or("symmetric", true)))
            return fail(Fault::unsupported, weights.field("symmetric") + " must be true");
        if (weights.has("block_structure")) TRY(tile(weights, "block_structure"));
        if (type == "float" && bits == 4 && group == 16) return QuantizedForm{Kind::nvfp4, 16, 4};
        if (type == "float" && bits == 4 && group == 32) return QuantizedForm{Kind::mxfp4, 32, 4};
        if (type == "float" && bits == 8 && group == 32) return QuantizedForm{Kind::mxfp8, 32, 8};
        if (type == "float" && bits == 8 && group == 0) return QuantizedForm{Kind::fp8, 0, 8};
        return fail(Fault::unsupported,
                    weights.field("num_bits") + ": weights of " + std::to_string(bits) + " bits, type " +
                        in_quotes(type) + ", groups of " + std::to_string(group) +
                        " are not supported; floats of 4 bits in groups of 16 or 32, and of 8 bits, are");
    }

    QuantizedLayers& layers_;
};

Result<QuantizedLayers> QuantizedLayers::read(const Json& config, const Json* hf_quant_config) {
    QuantizedLayers layers;
    Reader reader(layers);
    const ConfigReader root(config, "config.json");
    if (root.has("quantization")) return layers;  // MLX's: formats/quantization.h
    if (root.has("quantization_config")) {
        const ConfigReader section = TRY(root.child("quantization_config"));
        if (!section.has("quant_method")) return layers;  // likewise
        const std::string method = TRY(section.text("quant_method"));
        if (method == "modelopt" || method == "modelopt_fp4" || method == "modelopt_mixed")
            TRY(reader.modelopt(section));
        else if (method == "compressed-tensors")
            TRY(reader.compressed_tensors(section));
        else if (method == "fp8")
            TRY(reader.fp8(section));
        else
            return fail(
                Fault::unsupported,
                section.field("quant_method") + " is " + in_quotes(method) +
                    "; weights quantised by MLX, ModelOpt, compressed-tensors or as fp8 are supported");
        return layers;
    }
    if (!hf_quant_config) return layers;
    const ConfigReader file(*hf_quant_config, "hf_quant_config.json");
    if (file.has("quantization")) TRY(reader.modelopt(TRY(file.child("quantization"))));
    return layers;
}

Status QuantizedLayers::expect(std::string_view module, const QuantizedForm& stored) const {
    for (const Rule& rule : rules_) {
        if (!fits(rule.pattern, module)) continue;
        if (rule.form == stored) return Done{};
        return fail(Fault::corrupt_file, std::string(module) + " is stored as " + name_of(stored) + "; by " +
                                             rule.field + " it is " +
                                             (rule.form ? name_of(*rule.form) : "not quantised"));
    }
    return Done{};
}

}  // namespace kapitsa
