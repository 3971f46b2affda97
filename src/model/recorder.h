// What a model file talks to: it gives each result a place on the scratch stack, checks shapes, chooses the
// kernel for the types at hand and launches it, so that `r.rms_norm(x, w, epsilon)` is an expression. It
// computes nothing.
#pragma once

#include <array>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/batch.h"
#include "model/disk_memory.h"
#include "model/weight.h"

namespace kapitsa {

/// Where the groups of rows lie that kernels/experts.h makes.
struct ExpertGroups {
    Address address;          // ExpertGroup [count]
    std::uint32_t count = 0;  // at most; the last ones may have no rows
};

class Recorder {
public:
    /// Launches on the backend, with results in [scratch, scratch + bytes).
    /// `disk`: null where nothing is read from files.
    Recorder(Backend& backend, Address scratch, std::size_t bytes, DiskMemory* disk = nullptr)
        : backend_(backend), scratch_(scratch), capacity_(bytes), disk_(disk) {}
    /// Launches nothing: finds how much scratch a step needs, and which kernels the backend lacks.
    static Recorder rehearsal(Backend& backend) {
        return {backend, Address{4096}, ~std::size_t{0} >> 1, true};
    }

    std::size_t peak_bytes() const { return peak_; }
    const std::set<std::string>& missing_kernels() const { return missing_; }

    /// Room for a result until the enclosing scope ends.
    Tensor place(std::uint32_t rows, std::uint32_t columns);

    /// Results made while it lives are gone with it.
    class Scope {
    public:
        explicit Scope(Recorder& recorder) : recorder_(recorder), used_(recorder.used_) {}
        Scope(const Scope&) = delete;
        ~Scope() { recorder_.used_ = used_; }

    private:
        Recorder& recorder_;
        std::size_t used_;
    };
    Scope scope() { return Scope(*this); }

    /// [batch.rows, table.columns], given rows included.
    Tensor embed(const Weight& table, const Batch& batch);
    /// Says which rows of a table the step will look up, as early as they are known: uint picked [count],
    /// which stay where they are until then. There is one lookup of them, with just these.
    void begin_lookup(const ExpertWeights& parts, Address picked, std::uint32_t count);
    /// Rows of a table in parts of `part_rows` rows each: uint picked [y.rows].
    void lookup(const ExpertWeights& parts, std::uint32_t part_rows, Address picked, Tensor y);
    Tensor rms_norm(Tensor x, Tensor weight, float epsilon);
    /// Of the rows of a list alone.
    Tensor rms_norm_of(Tensor x, Address picked, std::uint32_t rows, Tensor weight, float epsilon);
    /// W x for each row of x.
    Tensor multiply(const Weight& w, Tensor x);
    /// y = W x + y: what a residual layer ends with.
    void multiply_add(const Weight& w, Tensor x, Tensor y);
    /// Several matrices with one x: few launches, or one.
    template <std::size_t count>
    std::array<Tensor, count> multiply_all(const Weight* const (&weights)[count], Tensor x) {
        std::array<Tensor, count> y;
        for (std::size_t i = 0; i < count; ++i) y[i] = place(x.rows, weights[i]->rows);
        multiply_into(weights, {}, x, y);
        return y;
    }
    /// The same for rows in groups, each with the matrices of its expert.
    template <std::size_t count>
    std::array<Tensor, count> multiply_experts(const ExpertWeights* const (&weights)[count], Tensor x,
                                               const ExpertGroups& groups) {
        std::array<Tensor, count> y;
        for (std::size_t i = 0; i < count; ++i) y[i] = place(x.rows, weights[i]->one.rows);
        multiply_experts_into(weights, x, groups, y);
        return y;
    }
    Tensor swiglu(Tensor gate, Tensor up);
    Tensor squared_relu(Tensor x);
    /// Each row of `left` followed by that of `right`.
    Tensor join(Tensor left, Tensor right);
    /// Rows of x, `from` (null: all) to `to` (null: all) of y, which somebody else owns.
    void copy_rows(Tensor x, Address from, Address to, std::uint32_t rows, Address y);

    /// Any kernel, with arguments that a layer has filled.
    template <typename Args>
    void launch(Kernel<Args> kernel, const std::type_identity_t<Args>& args) {
        if (!rehearsing_) return backend_.launch(kernel, args);
        if (!backend_.has(kernel.name)) missing_.insert(kernel.name);
    }

private:
    Recorder(Backend& backend, Address scratch, std::size_t bytes, bool rehearsing)
        : backend_(backend), scratch_(scratch), capacity_(bytes), rehearsing_(rehearsing) {}

    void multiply_into(std::span<const Weight* const> weights, std::span<const Tensor> add, Tensor x,
                       std::span<const Tensor> y);
    void multiply_experts_into(std::span<const ExpertWeights* const> weights, Tensor x,
                               const ExpertGroups& groups, std::span<const Tensor> y);

    Backend& backend_;
    Address scratch_;
    std::size_t capacity_, used_ = 0, peak_ = 0;
    bool rehearsing_ = false;
    DiskMemory* disk_ = nullptr;
    std::set<std::string> missing_;
};

/// Addresses as kernels take them.
template <typename T>
In<T> in(Address address) {
    return reinterpret_cast<In<T>>(address.value);
}
template <typename T>
Out<T> out(Address address) {
    return reinterpret_cast<Out<T>>(address.value);
}
inline In<float> in(Tensor tensor) { return in<float>(tensor.address); }
inline Out<float> out(Tensor tensor) { return out<float>(tensor.address); }

}  // namespace kapitsa
