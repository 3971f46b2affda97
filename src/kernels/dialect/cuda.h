// What the words of a kernel file (dialect.h) mean to nvcc.
#pragma once

#define KERNEL_BODIES

#define INLINE __host__ __device__ __forceinline__
#define BODY __device__ __forceinline__
#define TABLE static __device__ const
#define UNROLL _Pragma("unroll")

namespace kapitsa {

using uint = unsigned int;
using ushort = unsigned short;
using uchar = unsigned char;
using ulong = unsigned long long;

template <typename T>
using In = const T*;
template <typename T>
using Out = T*;
template <typename T>
using Args = const T&;
template <typename T>
using Shared = T&;
template <typename T>
using SharedArray = T*;
template <typename T>
using Local = T*;
struct None {};

struct Position {
    uint3 group;
    uint index, lane, simdgroup, simdgroups;
};

BODY Position here() {
    const uint index = threadIdx.x;
    return {{blockIdx.x, blockIdx.y, blockIdx.z}, index, index % 32, index / 32, blockDim.x / 32};
}

template <typename To, typename From>
BODY To bits(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &value, sizeof to);
    return to;
}
BODY float float_of_bits(uint word) { return __uint_as_float(word); }
BODY float float_of_half_bits(uint word) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(ushort(word)));
    return value;
}

struct half {
    ushort word;
    BODY explicit operator float() const { return float_of_half_bits(word); }
};
struct bfloat {
    ushort word;
    BODY explicit operator float() const { return float_of_bits(uint(word) << 16); }
};

BODY float exp(float x) { return ::expf(x); }
BODY float log(float x) { return ::logf(x); }
BODY float sqrt(float x) { return ::sqrtf(x); }
BODY float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
BODY float tanh(float x) { return ::tanhf(x); }
BODY float sin(float x) { return ::sinf(x); }
BODY float cos(float x) { return ::cosf(x); }
BODY float abs(float x) { return ::fabsf(x); }
BODY float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
BODY float min(float x, float y) { return ::fminf(x, y); }
BODY float max(float x, float y) { return ::fmaxf(x, y); }
BODY uint min(uint x, uint y) { return x < y ? x : y; }
BODY uint max(uint x, uint y) { return x < y ? y : x; }
BODY int min(int x, int y) { return x < y ? x : y; }
BODY int max(int x, int y) { return x < y ? y : x; }
BODY bool isnan(float x) { return x != x; }

// 16 bytes at once, from an address that is a multiple of 16.
BODY float4 load4(In<float> p) { return *reinterpret_cast<const float4*>(p); }
BODY uint4 load4(In<uint> p) { return *reinterpret_cast<const uint4*>(p); }

BODY void group_barrier() { __syncthreads(); }
BODY void simd_barrier() { __syncwarp(); }
template <typename T>
BODY T simd_shuffle(T value, uint lane) {
    return __shfl_sync(~0u, value, lane);
}
template <typename T>
BODY T simd_shuffle_xor(T value, uint mask) {
    return __shfl_xor_sync(~0u, value, mask);
}
BODY float simd_sum(float value) {
    UNROLL for (uint step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}
BODY uint simd_sum(uint value) {
    UNROLL for (uint step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}
BODY float simd_max(float value) {
    UNROLL for (uint step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
    return value;
}
BODY uint simd_max(uint value) { return __reduce_max_sync(~0u, value); }
BODY bool simd_any(bool value) { return __any_sync(~0u, value); }
BODY uint simd_ballot(bool value) { return __ballot_sync(~0u, value); }
BODY uint count_bits(uint word) { return uint(__popc(word)); }

}  // namespace kapitsa

// Grids and tables of handles are the host's.
#define GRID(...)
#define GRID_OF_ANY(...)
#define ENTRY(entry, body, Arguments, Scratch)                                 \
    extern "C" __global__ void entry(const __grid_constant__ Arguments args) { \
        __shared__ Scratch scratch;                                            \
        body(args, here(), scratch);                                           \
    }
