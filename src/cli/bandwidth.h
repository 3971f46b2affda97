// How fast this machine reads memory: decoding reads every weight once a token, so this is its ceiling.
#pragma once

namespace kapitsa {

/// Bytes a second that `threads` threads together read from a buffer larger than the caches: the best of
/// several passes. Takes about a second.
double read_bandwidth(unsigned threads);

}  // namespace kapitsa
