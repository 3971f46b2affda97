// How much a program asks of the heap, so that a test can say what a hostile file may cost.
// A program that uses this has its operator new counted; others are not touched.
#pragma once

#include <cstddef>

namespace kapitsa {

/// Bytes asked of operator new since the start, by all threads. What was freed still counts.
std::size_t allocated_bytes();

}  // namespace kapitsa
