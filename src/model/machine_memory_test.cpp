#include "model/machine_memory.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

TEST(MachineMemory, IsKnownOnLinux) {
#if defined(__linux__)
    const MachineMemory machine = machine_memory();
    EXPECT_GT(machine.available, 0u);
    EXPECT_GT(machine.total, machine.available);
#endif
}

TEST(MachineWatch, LooksOnceInAWhileAndKnowsShortFromAmple) {
    using Advice = MachineWatch::Advice;
    MachineMemory machine{.total = 100, .available = 4};
    MachineWatch rare({.machine = [&] { return machine; }, .interval = std::chrono::hours(1)});
    EXPECT_EQ(rare.look(), Advice::keep);
    MachineWatch watch({.machine = [&] { return machine; }, .interval = std::chrono::milliseconds(0)});
    EXPECT_EQ(watch.look(), Advice::shrink);
    machine.available = 10;
    EXPECT_EQ(watch.look(), Advice::keep);
    machine.available = 21;
    EXPECT_EQ(watch.look(), Advice::grow);
    machine = {};  // the system does not say
    EXPECT_EQ(watch.look(), Advice::keep);
}

TEST(PinnedMemory, IsZeroAgainWhereItWasGivenBack) {
    constexpr std::uint64_t bytes = 1u << 20;
    auto memory = PinnedMemory::make(bytes, "a test");
    ASSERT_TRUE(memory);
    memory->data()[0] = memory->data()[bytes - 1] = std::byte{7};
    memory->give_back(bytes / 2 + 1, bytes / 2 - 1);
    EXPECT_EQ(memory->data()[0], std::byte{7});
    EXPECT_EQ(memory->data()[bytes - 1], std::byte{0});
    EXPECT_FALSE(PinnedMemory::make(std::uint64_t{1} << 62, "a test"));
}

}  // namespace
}  // namespace kapitsa
