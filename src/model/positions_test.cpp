#include "model/positions.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

PlacedPicture placed(std::uint32_t first, std::uint32_t token_rows, std::uint32_t token_columns) {
    auto picture = std::make_shared<Picture>();
    picture->block = 2;
    picture->rows = token_rows * 2;
    picture->columns = token_columns * 2;
    return {first, picture};
}

TEST(Positions, OfTextAreThePlaces) {
    const Positions positions;
    EXPECT_EQ(positions.at(0), (RowPosition{0, 0, 0}));
    EXPECT_EQ(positions.at(70), (RowPosition{70, 70, 70}));
    EXPECT_EQ(positions.shift(70), 0);
    EXPECT_FALSE(positions.jumps(0));
}

TEST(Positions, OfAPictureCountItsRowsAndColumnsFromOneTime) {
    const PlacedPicture pictures[] = {placed(5, 2, 3)};
    const Positions positions(pictures);
    EXPECT_EQ(positions.at(4), (RowPosition{4, 4, 4}));
    EXPECT_EQ(positions.at(5), (RowPosition{5, 5, 5}));
    EXPECT_EQ(positions.at(7), (RowPosition{5, 5, 7}));
    EXPECT_EQ(positions.at(10), (RowPosition{5, 6, 7}));
    EXPECT_EQ(positions.at(11), (RowPosition{8, 8, 8}));
    EXPECT_EQ(positions.shift(11), -3);
    EXPECT_EQ(positions.at(100), (RowPosition{97, 97, 97}));
    for (std::uint32_t token = 0; token < 20; ++token)
        EXPECT_EQ(positions.jumps(token), token >= 5 && token <= 11) << token;
}

TEST(Positions, APictureMayTakeMoreTimeThanItHasTokens) {
    const PlacedPicture pictures[] = {placed(0, 1, 1), placed(1, 4, 1), placed(5, 1, 9)};
    const Positions positions(pictures);
    EXPECT_EQ(positions.at(0), (RowPosition{0, 0, 0}));
    EXPECT_EQ(positions.at(4), (RowPosition{1, 4, 1}));
    EXPECT_EQ(positions.at(5), (RowPosition{5, 5, 5}));
    EXPECT_EQ(positions.at(14), (RowPosition{14, 14, 14}));
}

}  // namespace
}  // namespace kapitsa
