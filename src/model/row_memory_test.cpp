#include "model/row_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>

#include "model/disk_memory.h"
#include "model/products.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t parts = 3, part_rows = 500, columns = 24, picks = 4, step_rows = 16;
constexpr std::uint32_t rows = parts * part_rows;
constexpr std::size_t row_bytes = columns * sizeof(float);

/// A file with a table in three parts, whose values say where they stand.
class Rows : public testing::Test {
protected:
    using Part = MultiplyDense<float>::Part;

    void SetUp() override {
        std::vector<float> values(25 + rows * columns);  // 25: rows lie across the blocks of the file
        std::iota(values.begin(), values.end(), 0.0f);
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * 4));
        files_.push_back(*MappedFile::open(path_));
        readers_ = std::make_unique<DiskReaders>(files_);
        memory_ = std::make_unique<RowMemory>(*readers_);
        std::vector<Weight> table(parts);
        for (std::uint32_t part = 0; part < parts; ++part) {
            table[part].rows = part_rows;
            table[part].columns = columns;
            table[part].data = Address{reinterpret_cast<std::uintptr_t>(mapped(part * part_rows))};
        }
        table_ = memory_->add(table, picks, sizeof(Part));
        picked_ = *backend_->allocate(step_rows * picks * sizeof(std::uint32_t));
    }
    void TearDown() override {
        memory_.reset();
        fs::remove(path_);
    }

    const float* mapped(std::uint32_t row) const {
        return reinterpret_cast<const float*>(files_.front().bytes().data()) + 25 + row * columns;
    }
    Status start(std::uint64_t bytes) {
        return memory_->start(
            {.bytes = bytes,
             .rows_per_step = step_rows,
             .watch = {.machine = [this] { return machine_; }, .interval = std::chrono::milliseconds(0)}});
    }
    std::uint64_t least() const { return memory_->least_bytes(step_rows); }
    /// @return where a lookup finds them
    std::vector<const float*> places(const std::vector<std::uint32_t>& wanted) {
        const auto count = std::uint32_t(wanted.size());
        backend_->write(picked_, std::as_bytes(std::span(wanted)));
        memory_->begin(*backend_, table_, picked_, count);
        const auto found = memory_->before_lookup(*backend_, table_, picked_, count);
        EXPECT_TRUE(backend_->run());
        EXPECT_TRUE(found);
        const auto* picked = reinterpret_cast<const std::uint32_t*>(found->picked.value);
        const auto* their_parts = reinterpret_cast<const Part*>(found->parts.value);
        std::vector<const float*> places;
        for (std::uint32_t i = 0; i < count; ++i) places.push_back(their_parts[picked[i]].weight);
        return places;
    }
    void ask(const std::vector<std::uint32_t>& wanted) {
        const auto found = places(wanted);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            EXPECT_TRUE(std::equal(found[i], found[i] + columns, mapped(wanted[i]))) << wanted[i];
            EXPECT_NE(found[i], mapped(wanted[i]));
        }
    }

    const std::string path_ = (fs::temp_directory_path() / "kapitsa_row_memory_test.bin").string();
    std::vector<MappedFile> files_;
    const std::unique_ptr<Backend> backend_ = *open_backend("cpu", {.threads = 2});
    std::unique_ptr<DiskReaders> readers_;
    std::unique_ptr<RowMemory> memory_;
    std::uint32_t table_ = 0;
    Address picked_;
    MachineMemory machine_{.total = 100, .available = 50};
};

TEST_F(Rows, AreReadOnceAndFoundAfterwards) {
    EXPECT_EQ(memory_->bytes(), rows * row_bytes);
    ASSERT_TRUE(start(memory_->most_bytes(step_rows)));
    ask({7, 1499, 42, 7, 7, 500});
    ask({42, 7, 3});
    const DiskCounters counters = memory_->counters();
    EXPECT_EQ(counters.read, 5u);  // each once, however often the step asks for it
    EXPECT_EQ(counters.found, 2u);
    EXPECT_EQ(counters.bytes_read, 5 * row_bytes);
}

TEST_F(Rows, AllHaveRoomInAsMuchAsAllTake) {
    ASSERT_TRUE(start(memory_->most_bytes(step_rows)));
    for (int round = 0; round < 2; ++round)
        for (std::uint32_t first = 0; first < rows; first += step_rows * picks) {
            std::vector<std::uint32_t> wanted;
            for (std::uint32_t row = first; row < std::min(rows, first + step_rows * picks); ++row)
                wanted.push_back(row);
            ask(wanted);
        }
    EXPECT_EQ(memory_->counters().read, rows);
    EXPECT_EQ(memory_->counters().found, rows);
}

TEST_F(Rows, OfOneStepHaveRoomInTheLeastMemory) {
    ASSERT_TRUE(start(least()));
    EXPECT_LE(memory_->usable_bytes(), least());
    std::mt19937 random(3);
    std::uint64_t asked = 0;
    for (int step = 0; step < 200; ++step) {
        std::vector<std::uint32_t> wanted(step_rows * picks);
        for (std::uint32_t& row : wanted) row = random() % (step % 2 ? rows : 40);
        ask(wanted);
        asked += std::set(wanted.begin(), wanted.end()).size();
    }
    const DiskCounters counters = memory_->counters();
    EXPECT_EQ(counters.found + counters.read, asked);
    EXPECT_GT(counters.found, 0u);
    EXPECT_EQ(counters.bytes_read, counters.read * row_bytes);
}

TEST_F(Rows, ThatAreAskedForOftenStay) {
    ASSERT_TRUE(start(least()));  // 64 rows
    for (int i = 0; i < 4; ++i) ask({3, 1003});
    std::uint64_t found = memory_->counters().found;
    for (std::uint32_t first = 100; first < 250; first += 50) {  // each but once
        std::vector<std::uint32_t> wanted(50);
        std::iota(wanted.begin(), wanted.end(), first);
        ask(wanted);
    }
    EXPECT_EQ(memory_->counters().found, found);
    ask({3, 1003});
    EXPECT_EQ(memory_->counters().found, found + 2);
}

TEST_F(Rows, ShrinkWhenTheMachineIsShortAndGrowAgain) {
    const std::uint64_t all = 4 * least();
    ASSERT_TRUE(start(all));
    const std::uint64_t before = memory_->usable_bytes();
    std::mt19937 random(5);
    const auto steps = [&](int count) {
        for (int step = 0; step < count; ++step) {
            std::vector<std::uint32_t> wanted(step_rows * picks);
            for (std::uint32_t& row : wanted) row = random() % rows;
            ask(wanted);
        }
    };
    steps(20);
    machine_.available = 1;
    steps(20);
    EXPECT_LE(memory_->usable_bytes(), least());
    machine_.available = 50;
    steps(20);
    EXPECT_EQ(memory_->usable_bytes(), before);
}

TEST_F(Rows, OfAFileThatWasReplacedAreUsedWhereTheyAreMapped) {
    fs::remove(path_);
    std::ofstream(path_) << "something else";
    ASSERT_TRUE(start(least()));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(places({4, 999}), (std::vector{mapped(4), mapped(999)}));
    EXPECT_TRUE(readers_->status());
}

TEST_F(Rows, OfAFileThatBecameShorterAreAnError) {
    ASSERT_TRUE(start(least()));
    ask({0, 1});
    fs::resize_file(path_, 4096);
    const auto found = places({0, 1400});
    EXPECT_TRUE(std::equal(found[0], found[0] + columns, mapped(0)));
    EXPECT_TRUE(std::all_of(found[1], found[1] + columns, [](float value) { return value == 0; }));
    const Status status = readers_->status();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().fault, Fault::device);
    EXPECT_NE(status.error().message.find(path_ + " became shorter"), std::string::npos)
        << status.error().message;
}

TEST_F(Rows, OfOneStepMustFit) {
    const Status started = start(least() - 1);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().fault, Fault::invalid_input);
}

/// A table of 2 parts of 40 rows of any bytes, in a form that lookups have.
class RowsOf : public testing::Test {
protected:
    static constexpr std::uint32_t wide = 256, few = 40;

    RowsOf() {
        std::mt19937 random(17);
        std::vector<std::uint32_t> words(1u << 18);
        for (std::uint32_t& word : words) word = std::uint32_t(random());
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(words.data()), std::streamsize(words.size() * 4));
        files_.push_back(*MappedFile::open(path_));
    }
    ~RowsOf() override { fs::remove(path_); }

    void expect_the_bits_of_the_mapped_table(Weight one, const std::string& form) {
        one.rows = few;
        one.columns = wide;
        std::uint64_t place = reinterpret_cast<std::uintptr_t>(files_.front().bytes().data()) + 100;
        std::vector<Weight> both(2, one);
        for (Weight& part : both) {
            for (const Weight::Range& range : one.ranges()) {
                if (range.bytes == 0) continue;
                part.*range.place = Address{place};
                place += (range.bytes + 3) / 4 * 4;
            }
            if (one.tile.rows == 0) continue;
            std::vector<float> factors(few / one.tile.rows * part.row_tiles());
            for (float& factor : factors) factor = 1.0f / float(++factors_made_);
            part.factors = *backend_->allocate(factors.size() * 4);
            backend_->write(part.factors, std::as_bytes(std::span(factors)));
        }
        DiskMemory disk(files_);
        ExpertWeights table{.one = both[0], .experts = 2, .parts = {}, .part_bytes = 0, .stack = 0};
        with_product(both[0], [&]<typename Args>(const Product<Args>& product) {
            std::vector<typename Args::Part> their_parts(2);
            for (int i = 0; i < 2; ++i) set_weight(product.args, their_parts[i], both[i]);
            table.part_bytes = sizeof their_parts[0];
            table.parts = *backend_->allocate(2 * table.part_bytes);
            backend_->write(table.parts, std::as_bytes(std::span(their_parts)));
        });
        table.stack = disk.rows.add(both, 8, table.part_bytes);
        ASSERT_TRUE(disk.start({.experts = {}, .rows = disk.rows.least_bytes(1)}, 1));
        const std::vector<std::uint32_t> wanted{79, 0, 39, 40, 17, 0, 63, 5};
        EXPECT_EQ(looked_up(table, wanted, &disk), looked_up(table, wanted, nullptr)) << form;
        EXPECT_EQ(looked_up(table, wanted, &disk), looked_up(table, wanted, nullptr)) << form;
        EXPECT_EQ(disk.rows.counters().read, 7u) << form;
        EXPECT_EQ(disk.rows.counters().found, 7u) << form;
    }

private:
    /// As bits: any bytes may mean what is no number.
    std::vector<std::uint32_t> looked_up(const ExpertWeights& table, const std::vector<std::uint32_t>& wanted,
                                         DiskMemory* disk) {
        const auto count = std::uint32_t(wanted.size());
        const Address picked = *backend_->allocate(count * 4), y = *backend_->allocate(count * wide * 4);
        backend_->write(picked, std::as_bytes(std::span(wanted)));
        Recorder r(*backend_, Address{}, 0, disk);
        r.begin_lookup(table, picked, count);
        r.lookup(table, few, picked, {y, count, wide});
        EXPECT_TRUE(backend_->run());
        std::vector<std::uint32_t> bits(count * wide);
        EXPECT_TRUE(backend_->read(y, std::as_writable_bytes(std::span(bits))));
        return bits;
    }

    const std::string path_ = (fs::temp_directory_path() / "kapitsa_rows_of_forms_test.bin").string();
    std::vector<MappedFile> files_;
    const std::unique_ptr<Backend> backend_ = *open_backend("cpu", {.threads = 2});
    int factors_made_ = 0;
};

TEST_F(RowsOf, FloatsHaveTheBitsOfTheMappedTable) {
    for (const Weight::Form form : {Weight::Form::f32, Weight::Form::f16, Weight::Form::bf16}) {
        Weight one;
        one.form = form;
        expect_the_bits_of_the_mapped_table(one, "floats " + std::to_string(int(form)));
    }
}

TEST_F(RowsOf, CodesHaveTheBitsOfTheMappedTable) {
    for (const std::uint32_t bits : products::affine_bits)
        for (const Weight::Form scales : {Weight::Form::f32, Weight::Form::f16, Weight::Form::bf16}) {
            Weight one;
            one.form = Weight::Form::affine;
            one.scale_form = scales;
            one.bits = bits;
            one.group = 64;
            expect_the_bits_of_the_mapped_table(one, std::to_string(bits) + " bits");
        }
}

TEST_F(RowsOf, BlocksHaveTheBitsOfTheMappedTable) {
    for (uint form = 0; form < block_form_count; ++form) {
        Weight one;
        one.form = Weight::Form::blocks;
        one.block_form = BlockForm(form);
        if (one.block_form == BlockForm::fp8) one.tile = {8, 128};
        expect_the_bits_of_the_mapped_table(one, name_of(one.block_form));
    }
}

TEST(DiskMemory, GivesRowsASixteenthOrWhatExpertsLeave) {
    constexpr std::uint64_t mebibyte = 1u << 20;
    const std::string path = (fs::temp_directory_path() / "kapitsa_disk_memory_test.bin").string();
    std::ofstream(path).put('x');
    fs::resize_file(path, 64 * mebibyte);  // of holes
    {
        std::vector<MappedFile> files;
        files.push_back(*MappedFile::open(path));
        const Address begin{reinterpret_cast<std::uintptr_t>(files.front().bytes().data())};
        DiskMemory memory(files);
        std::vector<Weight> matrices(16), table(1);
        for (std::size_t e = 0; e < matrices.size(); ++e) {
            matrices[e].rows = 512;
            matrices[e].columns = 512;
            matrices[e].data = begin + e * mebibyte;
        }
        table[0].rows = 32u << 10;
        table[0].columns = 256;
        table[0].data = begin + 16 * mebibyte;
        using Part = MultiplyDense<float>::Part;
        const auto backend = *open_backend("cpu", {.threads = 1});
        memory.experts.add("layer", matrices, *backend->allocate(16 * sizeof(Part)), sizeof(Part));
        EXPECT_FALSE(memory.divide(mebibyte, 1).rows);
        memory.rows.add(table, 4, sizeof(Part));
        EXPECT_EQ(memory.bytes(), 48 * mebibyte);
        EXPECT_EQ(memory.divide(8 * mebibyte, 1).rows, mebibyte / 2);
        EXPECT_EQ(memory.divide(8 * mebibyte, 1).experts, 15 * mebibyte / 2);
        const auto much = memory.divide(32 * mebibyte, 1);
        EXPECT_EQ(much.experts, memory.experts.most_bytes());
        EXPECT_EQ(*much.rows + *much.experts, 32 * mebibyte);
        EXPECT_EQ(memory.divide(1024 * mebibyte, 1).rows, memory.rows.most_bytes(1));
        EXPECT_FALSE(memory.start(memory.divide(mebibyte, 1), 1));
        EXPECT_FALSE(memory.experts.started());
    }
    fs::remove(path);
}

TEST(Weight, HasItsRowsAsMatrices) {
    Weight fp8;
    fp8.form = Weight::Form::blocks;
    fp8.block_form = BlockForm::fp8;
    fp8.tile = {128, 128};
    fp8.rows = 300;
    fp8.columns = 256;
    fp8.data = Address{1000};
    fp8.factors = Address{1u << 20};
    const Weight row = fp8.row(130);
    EXPECT_EQ(row.rows, 1u);
    EXPECT_EQ(row.data.value, 1000 + 130u * 256);
    EXPECT_EQ(row.factors.value, (1u << 20) + 2 * sizeof(float));  // of the second row of tiles
}

}  // namespace
}  // namespace kapitsa
