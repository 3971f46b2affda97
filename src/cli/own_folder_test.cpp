#include "cli/own_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

namespace kapitsa {
namespace {

/// $HOME and $XDG_DATA_HOME as a test wants them, and afterwards as they were.
class OwnFolder : public testing::Test {
protected:
    void SetUp() override {
        if (const char* value = std::getenv("HOME")) before_ = value;
        ::unsetenv("XDG_DATA_HOME");
    }
    void TearDown() override {
        if (before_) ::setenv("HOME", before_->c_str(), 1);
        ::unsetenv("XDG_DATA_HOME");
    }
    static std::string data() { return own_folder("XDG_DATA_HOME", ".local/share"); }

private:
    std::optional<std::string> before_;
};

TEST_F(OwnFolder, IsInTheHomeFolderUnlessTheVariableNamesAnother) {
    ::setenv("HOME", "/home/somebody", 1);
    EXPECT_EQ(data(), "/home/somebody/.local/share/kapitsa");
    ::setenv("XDG_DATA_HOME", "/data", 1);
    EXPECT_EQ(data(), "/data/kapitsa");
}

TEST_F(OwnFolder, DoesNotMindRelativePaths) {
    ::setenv("HOME", "/home/somebody", 1);
    ::setenv("XDG_DATA_HOME", "data", 1);
    EXPECT_EQ(data(), "/home/somebody/.local/share/kapitsa");
}

TEST_F(OwnFolder, IsNeverAtTheRootOrHereForWantOfAHome) {
    for (const char* home : {"", "relative"}) {
        ::setenv("HOME", home, 1);
        const std::string folder = data();
        EXPECT_FALSE(folder.starts_with("/.local")) << folder;
        EXPECT_TRUE(folder.empty() || folder.front() == '/') << folder;
    }
}

}  // namespace
}  // namespace kapitsa
