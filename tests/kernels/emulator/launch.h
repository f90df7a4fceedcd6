// What the stand-in driver asks of the emulation.
#pragma once
#include "cuda_emulation.h"

namespace emulated {
typedef void (*Entry)(void** arguments);
// Orders in which a block's threads run; from kShuffled on, each number is another one.
enum Order : unsigned { kForward, kBackward, kShuffled };
// Runs a kernel to its end. Null, or what went wrong.
const char* launch(Entry kernel, Dim3 grid, Dim3 block, void** arguments, unsigned order);
}  // namespace emulated
