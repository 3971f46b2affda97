#include "kernels/lab.h"

#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "base/check.h"
#include "base/float16.h"

namespace kapitsa {
namespace {

constexpr std::size_t guard_floats = 64;
constexpr std::uint32_t guard_word = 0x7fc0a5a5;  // a NaN: read as data it spoils the result

std::set<std::pair<std::string, std::string>>& launched() {
    static std::set<std::pair<std::string, std::string>> all;  // place and kernel
    return all;
}

/// A whole run of the program launches every entry in every place.
class EveryEntryIsTested : public testing::Environment {
public:
    void TearDown() override {
        if (testing::GTEST_FLAG(filter) != "*" || testing::UnitTest::GetInstance()->Failed()) return;
        if (std::getenv("GTEST_TOTAL_SHARDS")) return;
        for (const Place& place : places_here())
            for (const std::string& entry : entries_in_headers())
                EXPECT_TRUE(launched().contains({place.name, entry}))
                    << "no test launches " << entry << " on " << place.name;
    }
};
testing::Environment* const every_entry_is_tested =
    testing::AddGlobalTestEnvironment(std::make_unique<EveryEntryIsTested>().release());

}  // namespace

std::vector<Place> places_here() {
    std::vector<Place> places;
    for (const std::string backend : {"cpu", "emulator", "cuda", "metal"}) {
        if (!open_backend(backend, {.threads = 1})) continue;
        if (backend != "cpu") {
            places.push_back({backend, 0, backend});
            continue;
        }
        for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
            places.push_back({backend, target, backend + "_" + hwy::TargetName(target)});
    }
    CHECK(!places.empty());
    return places;
}

Lab::Lab(const Place& place, std::uint32_t threads) : place_(place.name) {
    if (place.target) hwy::SetSupportedTargetsForTest(place.target);
    auto opened = open_backend(place.backend, {.threads = threads});
    CHECK(opened.has_value());
    backend_ = std::move(*opened);
    if (place.target) CHECK(backend_->device().description.ends_with(hwy::TargetName(place.target)));
}

Lab::~Lab() {
    backend_.reset();
    hwy::SetSupportedTargetsForTest(0);
}

Address Lab::give_bytes(Bytes values) {
    auto copy = std::make_unique_for_overwrite<std::byte[]>(values.size());
    if (!values.empty()) std::memcpy(copy.get(), values.data(), values.size());
    const auto address = backend_->import({copy.get(), values.size()});
    CHECK(address.has_value());
    given_.push_back(std::move(copy));
    return *address;
}

Out<float> Lab::room(std::size_t floats) {
    return room(std::vector<float>(floats, std::numeric_limits<float>::quiet_NaN()));
}

Out<float> Lab::room(const std::vector<float>& values) {
    std::vector<float> whole(values.size() + 2 * guard_floats, std::bit_cast<float>(guard_word));
    std::copy(values.begin(), values.end(), whole.begin() + guard_floats);
    const auto begin = backend_->allocate(whole.size() * sizeof(float));
    CHECK(begin.has_value());
    backend_->write(*begin, std::as_bytes(std::span(whole)));
    rooms_.push_back({*begin, values.size()});
    return reinterpret_cast<Out<float>>(begin->value) + guard_floats;
}

std::vector<float> Lab::read(In<float> from, std::size_t floats) {
    std::vector<float> values(floats);
    const auto done =
        backend_->read({reinterpret_cast<std::uint64_t>(from)}, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(done.has_value());
    return values;
}

void Lab::finish(const char* kernel) {
    launched().emplace(place_, kernel);
    const auto done = backend_->run();
    EXPECT_TRUE(done.has_value()) << kernel;
    for (const Room& room : rooms_) {
        const auto first = reinterpret_cast<In<float>>(room.begin.value);
        for (const auto at : {first, first + guard_floats + room.floats})
            for (const std::uint32_t word : bits(read(at, guard_floats)))
                if (word != guard_word) {
                    ADD_FAILURE() << kernel << " writes " << (at == first ? "before" : "behind")
                                  << " a room of " << room.floats << " floats";
                    break;
                }
    }
}

std::vector<float> random_floats(std::size_t count, std::uint32_t seed, float scale) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float& value : values) value = (float(random() >> 8) * 0x1p-23f - 1) * scale;
    return values;
}

std::vector<uint> random_words(std::size_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<uint> words(count);
    for (uint& word : words) word = uint(random());
    return words;
}

template <>
float stored<float>(float value) {
    return value;
}
template <>
bfloat stored<bfloat>(float value) {
    return {bf16_from_float(value)};
}
template <>
half stored<half>(float value) {
    // Cut to 11 bits, or to multiples of 2^-24 below 2^-14: no tie to think of, and exactly a half.
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float magnitude = std::fabs(value);
    CHECK(magnitude < 65536);
    if (magnitude < 0x1p-14f) return {std::uint16_t(sign | std::uint16_t(magnitude * 0x1p24f))};
    return {std::uint16_t(sign | ((std::bit_cast<std::uint32_t>(magnitude) >> 13) - (112u << 10)))};
}
double number(half value) { return float_from_f16(value.bits); }
double number(bfloat value) { return float_from_bf16(value.bits); }

double largest_error(std::span<const float> got, std::span<const double> want) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (got.size() != want.size()) return infinity;
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double error = std::fabs(got[i] - want[i]);
        if (!(error < infinity)) return infinity;
        largest = std::fmax(largest, error);
    }
    return largest;
}

double worst_relative(std::span<const float> got, std::span<const double> want) {
    double most = 0;
    for (const double value : want) most = std::fmax(most, std::fabs(value));
    const double error = largest_error(got, want);
    return error == 0 ? 0 : error / most;
}

std::vector<std::uint32_t> bits(std::span<const float> values) {
    std::vector<std::uint32_t> words;
    for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
    return words;
}

}  // namespace kapitsa
