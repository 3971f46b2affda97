// What relatives of Qwen3.5 share: the mixers of their layers and what follows those.
#pragma once

#include "make_checkpoint/plan.h"

namespace kapitsa::random_checkpoint {

struct QwenNumbers {
    std::string_view name;
    std::uint32_t width, layers, heads, kv_heads, value_heads, inner;
    bool tied;
    std::uint32_t experts = 0, picks = 0, shared = 0;  // inner is that of an expert where there are some
    std::uint32_t key_heads = 16, head_width = 256, state_width = 128, vocabulary = 248320;
};

void add_delta_net(Plan& plan, const std::string& module, const QwenNumbers& n);
void add_attention(Plan& plan, const std::string& module, const QwenNumbers& n);
void add_feed_forward(Plan& plan, const std::string& module, const QwenNumbers& n, ExpertLayout layout);

}  // namespace kapitsa::random_checkpoint
