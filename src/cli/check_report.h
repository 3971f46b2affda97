// What kapitsa check shows: tables, or one JSON object a line.
#pragma once

#include <string>
#include <vector>

#include "check/golden.h"
#include "check/reading.h"

namespace kapitsa {

/// Readings of several readers, of which the first is measured by.
struct TextReport {
    std::string kind;                  // "floor" or "against"
    std::vector<std::string> readers;  // what they are called
    std::string reader_notes;          // what those names mean, a line each
    std::vector<Reading> texts;

    Reading all() const;
    /// The largest mean divergence of any reader from the first, in nats.
    double floor() const;
};

void show(const TextReport& report, bool json);

/// `passed_over`: arrays that were compared with nothing.
void show(const std::string& model, const std::vector<GoldenResult>& results,
          const std::vector<std::string>& passed_over, bool json);

/// The first that does not hold, in a sentence; "" where all do.
std::string first_mismatch(const std::vector<GoldenResult>& results);

}  // namespace kapitsa
