#include "golden/forms.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/float16.h"
#include "support/checkpoint_writer.h"

namespace kapitsa {
namespace {

float element(const TensorEntry& entry, std::size_t i) {
    if (entry.type == ElementType::f32) {
        float value;
        std::memcpy(&value, entry.bytes.data() + 4 * i, 4);
        return value;
    }
    std::uint16_t word;
    std::memcpy(&word, entry.bytes.data() + 2 * i, 2);
    CHECK(entry.type == ElementType::bf16 || entry.type == ElementType::f16);
    return entry.type == ElementType::bf16 ? float_from_bf16(word) : float_from_f16(word);
}

/// @return what a reader gets
std::vector<float> add_bf16(CheckpointWriter& to, const std::string& name, const Array<float>& tensor) {
    std::vector<std::byte> bytes(2 * tensor.values.size());
    std::vector<float> rounded(tensor.values.size());
    for (std::size_t i = 0; i < rounded.size(); ++i) {
        const std::uint16_t word = bf16_from_float(tensor.values[i]);
        std::memcpy(&bytes[2 * i], &word, 2);
        rounded[i] = float_from_bf16(word);
    }
    to.add(name, ElementType::bf16, tensor.shape, std::move(bytes));
    return rounded;
}

}  // namespace

std::vector<NamedTensor> tensors_of(const Checkpoint& checkpoint) {
    std::vector<NamedTensor> all;
    for (const auto& [name, entry] : checkpoint.tensors) {
        NamedTensor named{name, {{}, entry.shape}};
        if (entry.type == ElementType::i64) {
            named.whole_type = entry.type;
            named.whole.assign(entry.bytes.begin(), entry.bytes.end());
            all.push_back(std::move(named));
            continue;
        }
        named.tensor.values.resize(entry.bytes.size() / element_bytes(entry.type));
        for (std::size_t i = 0; i < named.tensor.values.size(); ++i)
            named.tensor.values[i] = element(entry, i);
        all.push_back(std::move(named));
    }
    std::ranges::sort(all, {}, &NamedTensor::name);
    return all;
}

std::string quantisable_module(const NamedTensor& named, std::uint32_t group) {
    const auto& shape = named.tensor.shape;
    if (shape.size() < 2 || shape.size() > 3 || shape.back() % group != 0) return {};
    return named.name.ends_with(".weight") ? named.name.substr(0, named.name.size() - 7) : named.name;
}

void write_forms(const std::string& folder, const std::vector<NamedTensor>& tensors, const Json& config,
                 const std::function<StoredForm(const std::string& module)>& form_of) {
    using Kind = StoredForm::Kind;
    CheckpointWriter stored, plain;
    Json of_stored = config;
    Json& quantization = of_stored["quantization"];
    for (const NamedTensor& named : tensors) {
        if (!named.whole.empty()) {
            for (CheckpointWriter* to : {&stored, &plain})
                to->add(named.name, named.whole_type, named.tensor.shape, named.whole);
            continue;
        }
        const StoredForm form = form_of(
            named.name.ends_with(".weight") ? named.name.substr(0, named.name.size() - 7) : named.name);
        const std::string module = form.kind == Kind::affine ? quantisable_module(named, form.group) : "";
        Array<float> as_read = named.tensor;
        if (!module.empty()) {
            as_read.values = stored.add_affine(module, named.tensor.shape, named.tensor.values, form.bits,
                                               form.group, form.scales);
            const Json said{{"group_size", form.group}, {"bits", form.bits}};
            if (quantization.is_null()) quantization = said;
            if (quantization["group_size"] != said["group_size"] || quantization["bits"] != said["bits"])
                quantization[module] = said;
        } else if (form.kind == Kind::bf16) {
            as_read.values = add_bf16(stored, named.name, named.tensor);
        } else {
            stored.add_floats(named.name, named.tensor.shape, named.tensor.values);
        }
        plain.add_floats(named.name, as_read.shape, as_read.values);
    }
    if (quantization.is_null()) of_stored.erase("quantization");
    std::filesystem::create_directories(folder);
    stored.write(folder + "/stored", of_stored);
    plain.write(folder + "/plain", config);
}

}  // namespace kapitsa
