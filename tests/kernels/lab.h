// Where a kernel is put to the test: one backend (and of the CPU one instruction set), device copies of
// vectors, one launch at a time, results read back. Inputs lie at their exact length and outputs between
// guards, filled with NaN, so that a kernel which goes beyond its arguments or leaves a result out is found.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backend/backend.h"
#include "kernels/dialect/host.h"

namespace kapitsa {

/// A backend that is here; of the CPU, one of the instruction sets that its kernels are compiled for and this
/// processor has.
struct Place {
    std::string backend;
    std::int64_t target = 0;  // as Highway numbers them; 0: the backend has but one
    std::string name;         // "cpu_AVX2"
};
std::vector<Place> places_here();
inline void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }  // for GoogleTest

/// Every name in an ENTRY row of src/kernels/*.h.
std::vector<std::string> entries_in_headers();

class Lab {
public:
    explicit Lab(const Place& place, std::uint32_t threads = 1);
    Lab(const Lab&) = delete;
    Lab& operator=(const Lab&) = delete;
    ~Lab();

    Backend& backend() { return *backend_; }

    /// A device copy of the values, read-only.
    template <typename T>
    In<T> give(const std::vector<T>& values) {
        return reinterpret_cast<In<T>>(give_bytes(std::as_bytes(std::span(values))).value);
    }
    /// Device memory to write to, all NaN.
    Out<float> room(std::size_t floats);
    /// Device memory to write to, with something in it.
    Out<float> room(const std::vector<float>& values);

    /// Launches one kernel and waits for it. A failure, or a write beyond any room, fails the test.
    template <typename Args>
    void run(Kernel<Args> kernel, const std::type_identity_t<Args>& args) {
        backend_->launch(kernel, args);
        finish(kernel.name);
    }

    std::vector<float> read(In<float> from, std::size_t floats);

private:
    struct Room {
        Address begin;  // of the guard in front
        std::size_t floats;
    };

    Address give_bytes(Bytes values);
    void finish(const char* kernel);

    std::string place_;
    std::vector<std::unique_ptr<std::byte[]>> given_;  // outlives the backend, which may use it in place
    std::unique_ptr<Backend> backend_;
    std::vector<Room> rooms_;
};

/// The base of a kernel's tests; KERNEL_TESTS(Multiply) makes TEST_P(Multiply, ...) run in every place here.
class KernelTest : public testing::TestWithParam<Place> {};
#define KERNEL_TESTS(Suite)                                                 \
    class Suite : public KernelTest {};                                     \
    INSTANTIATE_TEST_SUITE_P(Here, Suite, testing::ValuesIn(places_here()), \
                             [](const testing::TestParamInfo<Place>& place) { return place.param.name; })

/// Uniform in [-scale, scale), the same on every machine.
std::vector<float> random_floats(std::size_t count, std::uint32_t seed, float scale = 1);
std::vector<uint> random_words(std::size_t count, std::uint32_t seed);

// Numbers as a kernel stores them, and what they are.
template <typename T>
T stored(float value);
inline double number(float value) { return value; }
double number(half value);
double number(bfloat value);
/// Values rounded to the type.
template <typename T>
std::vector<T> stored_as(const std::vector<float>& values) {
    std::vector<T> all;
    for (const float value : values) all.push_back(stored<T>(value));
    return all;
}

/// The largest |got - want|; infinite where one is NaN or the lengths differ.
double largest_error(std::span<const float> got, std::span<const double> want);
/// The same as a part of the largest |want|.
double worst_relative(std::span<const float> got, std::span<const double> want);

/// Values as words: equal only where every bit is.
std::vector<std::uint32_t> bits(std::span<const float> values);

/// Row `row` of [rows, columns].
template <typename T>
std::vector<T> row_of(const std::vector<T>& values, std::size_t row, std::size_t columns) {
    return {values.begin() + std::ptrdiff_t(row * columns),
            values.begin() + std::ptrdiff_t((row + 1) * columns)};
}

}  // namespace kapitsa
