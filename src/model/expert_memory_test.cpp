#include "model/expert_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "kernels/experts.h"
#include "kernels/multiply.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t layers = 2, experts = 8, rows = 3, columns = 700;  // no whole blocks of the file
constexpr std::size_t matrix_floats = std::size_t(rows) * columns;

/// A file of two layers with two kinds of matrices, whose values say where they stand.
class Experts : public testing::Test {
protected:
    using Part = MultiplyDense<float>::Part;

    void SetUp() override {
        std::vector<float> values(25 + 2 * layers * experts * matrix_floats);  // 25: an odd place to begin at
        std::iota(values.begin(), values.end(), 0.0f);
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * 4));
        files_.push_back(*MappedFile::open(path_));
        readers_ = std::make_unique<DiskReaders>(files_);
        memory_ = std::make_unique<ExpertMemory>(*readers_);
        for (std::uint32_t stack = 0; stack < 2 * layers; ++stack) {
            std::vector<Weight> matrices(experts);
            for (std::uint32_t e = 0; e < experts; ++e) {
                matrices[e].rows = rows;
                matrices[e].columns = columns;
                matrices[e].data = Address{std::uint64_t(mapped(stack, e))};
            }
            parts_.push_back(*backend_->allocate(experts * sizeof(Part)));
            for (std::uint32_t e = 0; e < experts; ++e) part(stack, e)->weight = mapped(stack, e);
            EXPECT_EQ(memory_->add(stack < 2 ? "first" : "second", matrices, parts_.back(), sizeof(Part)),
                      stack);
        }
        groups_ = *backend_->allocate(experts * sizeof(ExpertGroup));
    }
    void TearDown() override {
        memory_.reset();
        fs::remove(path_);
    }

    const float* mapped(std::uint32_t stack, std::uint32_t e) const {
        const auto* floats = reinterpret_cast<const float*>(files_.front().bytes().data());
        return floats + 25 + (stack * experts + e) * matrix_floats;
    }
    Part* part(std::uint32_t stack, std::uint32_t e) const {
        return reinterpret_cast<Part*>(parts_[stack].value) + e;
    }
    bool in_memory(std::uint32_t stack, std::uint32_t e) const {
        return part(stack, e)->weight != mapped(stack, e);
    }
    void ask(std::vector<std::uint32_t> stacks, const std::vector<std::uint32_t>& wanted) {
        std::vector<ExpertGroup> groups(experts);
        for (std::size_t i = 0; i < wanted.size(); ++i) groups[i] = {wanted[i], std::uint32_t(i), 1};
        backend_->write(groups_, std::as_bytes(std::span(groups)));
        memory_->before_launch(*backend_, stacks, groups_, experts);
        EXPECT_TRUE(backend_->run());
        for (const std::uint32_t stack : stacks)
            for (const std::uint32_t e : wanted)
                EXPECT_EQ(std::memcmp(part(stack, e)->weight, mapped(stack, e), matrix_floats * 4), 0)
                    << stack << " " << e;
    }
    std::uint64_t each() const { return memory_->least_bytes() / (2 * experts); }

    const std::string path_ = (fs::temp_directory_path() / "kapitsa_expert_memory_test.bin").string();
    std::vector<MappedFile> files_;
    const std::unique_ptr<Backend> backend_ = *open_backend("cpu", {.threads = 2});
    std::vector<Address> parts_;
    Address groups_;
    std::unique_ptr<DiskReaders> readers_;
    std::unique_ptr<ExpertMemory> memory_;
    MachineMemory machine_{.total = 100, .available = 50};
};

TEST_F(Experts, AreReadOnceAndFoundAfterwards) {
    EXPECT_EQ(memory_->bytes(), 2 * layers * experts * matrix_floats * 4);
    ASSERT_TRUE(memory_->start({.bytes = 1u << 30}));
    ask({0, 1}, {1, 5});
    EXPECT_TRUE(in_memory(0, 1) && in_memory(1, 5));
    EXPECT_FALSE(in_memory(0, 0));
    ask({0, 1}, {1, 5});
    const DiskCounters counters = memory_->counters();
    EXPECT_EQ(counters.read, 4u);
    EXPECT_EQ(counters.found, 4u);
    EXPECT_EQ(counters.bytes_read, 4 * matrix_floats * 4);
}

TEST_F(Experts, ThatFollowAreReadAhead) {
    ASSERT_TRUE(memory_->start({.bytes = 1u << 30}));
    ask({0}, {2});
    ask({1}, {2});  // read, or being read, since the call before
    EXPECT_EQ(memory_->counters().bytes_read, 2 * matrix_floats * 4);
    ask({0}, {0, 1, 2, 3, 4});
    ask({1}, {0, 1, 2, 3, 4});  // many: the next layer's are begun as well
    ask({2, 3}, {0, 1, 2, 3, 4, 5, 6, 7});
    EXPECT_EQ(memory_->counters().bytes_read, (5 + 5 + 16) * matrix_floats * 4);
}

TEST_F(Experts, ThatAreAskedForOftenStay) {
    ASSERT_TRUE(memory_->start({.bytes = memory_->least_bytes()}));  // 16 matrices of 32
    for (int i = 0; i < 5; ++i) ask({0}, {3});
    for (std::uint32_t round = 0; round < 3; ++round)
        for (std::uint32_t e = 0; e < experts; ++e) ask({2}, {e});
    EXPECT_TRUE(in_memory(0, 3));
    const std::uint64_t found = memory_->counters().found;
    ask({0}, {3});
    EXPECT_EQ(memory_->counters().found, found + 1);
}

TEST_F(Experts, ShrinkWhenTheMachineIsShortAndGrowAgain) {
    ExpertMemory::Options options;
    options.bytes = 32 * each();
    options.watch = {.machine = [this] { return machine_; }, .interval = std::chrono::milliseconds(0)};
    ASSERT_TRUE(memory_->start(options));
    const std::uint64_t all = memory_->usable_bytes();
    machine_.available = 1;
    std::vector<std::uint32_t> every(experts);
    std::iota(every.begin(), every.end(), 0u);
    for (int i = 0; i < 40; ++i) ask({0, 1}, every), ask({2, 3}, every);
    EXPECT_EQ(memory_->usable_bytes(), memory_->least_bytes());
    machine_.available = 50;
    for (int i = 0; i < 10; ++i) ask({0, 1}, every), ask({2, 3}, every);
    EXPECT_EQ(memory_->usable_bytes(), all);
}

TEST_F(Experts, OfAFileThatWasReplacedAreUsedWhereTheyAreMapped) {
    fs::remove(path_);
    std::ofstream(path_) << "something else";
    ASSERT_TRUE(memory_->start({.bytes = 1u << 30}));
    ask({0, 1}, {4});
    EXPECT_FALSE(in_memory(0, 4));
    EXPECT_EQ(part(0, 4)->weight, mapped(0, 4));
}

TEST_F(Experts, OfOneLayerMustFit) {
    const Status started = memory_->start({.bytes = memory_->least_bytes() - 1});
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().fault, Fault::invalid_input);
}

TEST_F(Experts, OfAFileThatBecameShorterAreAnError) {
    ASSERT_TRUE(memory_->start({.bytes = 1u << 30}));
    ask({0, 1}, {1});
    EXPECT_TRUE(readers_->status());
    fs::resize_file(path_, 4096);
    const ExpertGroup group{7, 0, 1};
    std::vector<ExpertGroup> groups(experts);
    groups[0] = group;
    backend_->write(groups_, std::as_bytes(std::span(groups)));
    const std::uint32_t stacks[] = {2, 3};
    memory_->before_launch(*backend_, stacks, groups_, experts);
    EXPECT_TRUE(backend_->run());
    const Status status = readers_->status();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().fault, Fault::device);
    EXPECT_NE(status.error().message.find("became shorter"), std::string::npos) << status.error().message;
    EXPECT_EQ(part(2, 7)->weight[matrix_floats - 1], 0.0f);  // and not what the mapping has lost
}

}  // namespace
}  // namespace kapitsa
