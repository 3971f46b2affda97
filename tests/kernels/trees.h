// Rows of a step as chains and trees.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/segments.h"

namespace kapitsa {

/// Parents of a chain of rows from `first` on.
inline std::vector<int> chain(int rows, int first = 0) {
    std::vector<int> parents;
    for (int row = 0; row < rows; ++row) parents.push_back(row ? first + row - 1 : no_row);
    return parents;
}

/// Sixteen rows: two roots, branches of every kind, a path of seven.
inline std::vector<int> tree(int first = 0) {
    std::vector<int> parents{no_row, 0, 0, 1, 1, 2, 4, no_row, 7, 6, 9, 10, 7, 8, 11, 3};
    for (int& parent : parents)
        if (parent != no_row) parent += first;
    return parents;
}

/// The row's ancestors, root first, and the row itself.
inline std::vector<uint> path_to(const std::vector<int>& parents, std::size_t row) {
    std::vector<uint> path;
    for (int at = int(row); at != no_row; at = parents[std::size_t(at)]) path.push_back(uint(at));
    std::ranges::reverse(path);
    return path;
}

/// Rows of a matrix, picked by a list, one behind the other.
template <typename T>
std::vector<T> picked_rows(const std::vector<T>& values, const std::vector<uint>& rows, std::size_t columns) {
    std::vector<T> all;
    for (const uint row : rows)
        all.insert(all.end(), values.begin() + std::ptrdiff_t(row * columns),
                   values.begin() + std::ptrdiff_t((row + 1) * columns));
    return all;
}

template <typename T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

}  // namespace kapitsa
