// Ctrl-C, for who waits for an answer: it ends the wait at once, and not the program. A signal handler can do
// little more than write to a pipe; so the engine's thread rings the same bell when it has something to take.
#pragma once

#include "base/result.h"

namespace kapitsa {

/// Of the whole process, as signals are.
class Interrupts {
public:
    /// From here on Ctrl-C rings the bell. Before all else here.
    static Status watch();
    /// Since the last `forget`.
    static bool came();
    static void forget();

    /// Wakes whoever waits, now or the next time. Any thread may, and any signal handler.
    static void ring();
    /// Returns after a ring; also after one that has long been heard.
    static void wait();
};

}  // namespace kapitsa
