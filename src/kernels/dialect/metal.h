// What the words of a kernel file (dialect.h) mean to the Metal compiler. MSL 3.1 and newer.
#pragma once

#include <metal_stdlib>

#define KERNEL_BODIES

#define INLINE inline __attribute__((always_inline))
#define BODY inline __attribute__((always_inline))
#define TABLE constant constexpr
#define UNROLL _Pragma("clang loop unroll(full)")

namespace kapitsa {

using namespace metal;

template <typename T>
using In = device const T*;
template <typename T>
using Out = device T*;
template <typename T>
using Args = constant T&;
template <typename T>
using Shared = threadgroup T&;
template <typename T>
using SharedArray = threadgroup T*;
template <typename T>
using Local = thread T*;
struct None {
    char unused;
};

struct Position {
    uint3 group;
    uint index, lane, simdgroup, simdgroups;
};

template <typename To, typename From>
BODY To bits(From value) {
    return as_type<To>(value);
}
BODY float float_of_bits(uint word) { return as_type<float>(word); }
BODY float float_of_half_bits(uint word) { return float(as_type<half>(ushort(word))); }

BODY float exp(float x) { return precise::exp(x); }
BODY float log(float x) { return precise::log(x); }
BODY float sqrt(float x) { return precise::sqrt(x); }
BODY float rsqrt(float x) { return 1.0f / precise::sqrt(x); }
BODY float tanh(float x) { return precise::tanh(x); }
BODY float sin(float x) { return precise::sin(x); }
BODY float cos(float x) { return precise::cos(x); }

BODY float4 load4(In<float> p) { return *reinterpret_cast<device const float4*>(p); }
BODY uint4 load4(In<uint> p) { return *reinterpret_cast<device const uint4*>(p); }

BODY void group_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device); }
BODY void simd_barrier() { simdgroup_barrier(mem_flags::mem_threadgroup); }
BODY uint count_bits(uint word) { return popcount(word); }
BODY uint simd_ballot(bool value) { return uint(ulong(metal::simd_ballot(value))); }

}  // namespace kapitsa

#define GRID(...)
#define GRID_OF_ANY(...)
#define ENTRY(entry, body, Arguments, Scratch)                                                              \
    kernel void entry(constant Arguments& args [[buffer(0)]], uint3 group [[threadgroup_position_in_grid]], \
                      uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],  \
                      uint simdgroup [[simdgroup_index_in_threadgroup]],                                    \
                      uint simdgroups [[simdgroups_per_threadgroup]]) {                                     \
        threadgroup Scratch scratch;                                                                        \
        body(args, Position{group, index, lane, simdgroup, simdgroups}, scratch);                           \
    }
