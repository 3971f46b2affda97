// How converters turn the tensors of a folder into those of a GGUF file: by a table of names and changes for
// each family. What gguf_of is made of.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/gguf_model.h"

namespace kapitsa {

const Json& text_of(const Json& config);
std::uint32_t number(const Json& text, const char* key);

/// What becomes of a tensor's values or shape.
enum class Change {
    none,
    add_one,     // norms that are stored as w of (1 + w)
    decay,       // -exp(w)
    taps,        // [channels, 1, taps] as [channels, taps]
    drop_row,    // [1, n] as [n]
    add_column,  // [n] as [n, 1]
};
struct Row {
    const char *ours = nullptr, *theirs = nullptr;  // of a layer: behind its prefix
    Change change = Change::none;
};

template <std::size_t a_rows, std::size_t b_rows>
constexpr std::array<Row, a_rows + b_rows> joined(const Row (&a)[a_rows], const Row (&b)[b_rows]) {
    std::array<Row, a_rows + b_rows> all;
    std::ranges::copy(a, all.begin());
    std::ranges::copy(b, all.begin() + a_rows);
    return all;
}

/// Of all that have delta nets, attention and SwiGLU layers of Qwen's.
constexpr Row rows_of_qwen[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"lm_head.weight", "output.weight"},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight", Change::taps},
    {"linear_attn.A_log", "ssm_a", Change::decay},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", Change::add_one},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", Change::add_one},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.experts.gate_proj", "ffn_gate_exps.weight"},
    {"mlp.experts.up_proj", "ffn_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", Change::drop_row},
};
/// Their settings. @param name of the architecture
void qwen_settings(GgufWriter& writer, const Json& text, const std::string& name);

using Tensors = std::vector<std::pair<std::string, Array<float>>>;

/// The name behind the first of these prefixes that it has.
std::string without(std::string name, std::initializer_list<std::string_view> prefixes);
/// Splits "layers.3.rest" in "blk.3." and "rest"; other names stay whole, behind "".
std::pair<std::string, std::string> block_of(const std::string& local, std::uint32_t first);
/// One half of the rows of each expert.
Array<float> half_of(const Array<float>& both, std::size_t half);
/// Experts one by one become one tensor a layer.
Tensors stacked(Tensors tensors);

/// What of each tensor is written, and in which type.
class Converter {
public:
    Converter(GgufWriter& writer, std::span<const Row> rows, ElementType type,
              std::optional<ElementType> rounded)
        : writer_(writer), rows_(rows), type_(type), rounded_(rounded) {}

    void add(const std::string& block, const std::string& local, Array<float> tensor);
    GgufWriter& writer() { return writer_; }

private:
    GgufWriter& writer_;
    std::span<const Row> rows_;
    ElementType type_;
    std::optional<ElementType> rounded_;
};

/// A family's settings and tensors.
struct Conversion {
    std::span<const Row> rows;
    void (*convert)(Converter& converter, const Json& config, Tensors tensors, const std::string& folder);
};
extern const Conversion qwen4_exp_conversion, dory_conversion, flint_conversion;

}  // namespace kapitsa
