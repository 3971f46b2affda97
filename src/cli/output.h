// Standard output, where commands answer. Writing is buffered, so that a failure comes to light late: it is
// asked for after each thing that somebody waits for, and once more at the end (command.cpp).
#pragma once

#include <string_view>

#include "base/result.h"

namespace kapitsa {

/// Writes the text to standard output.
void print(std::string_view text);

/// Sends what was printed on its way. Fault::cancelled when nobody reads it any more, Fault::device with the
/// reason for any other failure; what once failed stays failed.
Status flush_output();

/// Holds the places of standard streams that the program was started without, so that no file or socket gets
/// their numbers, and reading and writing them fails as it should.
void hold_standard_streams();

}  // namespace kapitsa
