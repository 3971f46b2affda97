// The words of a kernel file, as the compiler at hand knows them. A kernel file has three parts: the
// arguments, which all compilers read; the bodies, seen where KERNEL_BODIES is set; and the entries, one row
// a variant.
//
//     In<T> Out<T>          pointers into buffers of the device
//     Args<A> Shared<S>     the arguments of a launch, the scratch of a group: parameters of bodies
//     Local<T>              a pointer to a thread's own memory
//     Position              which group this is, and which thread in it
//     INLINE                a function of numbers alone (the host may call it as well)
//     BODY                  a function that a group's threads run
//     TABLE                 an array of constants
//     GRID(A, x, y, z, threads)     how a launch with these `args` is cut, in groups of threads
//     ENTRY(name, body, A, S)       the kernel `name`: body(Args<A>, Position, Shared<S>)
//
// All 32 lanes of a simdgroup call every simd_ function, all threads of a group every barrier. Arithmetic is
// in float; 16-bit types are read as float(x). Contraction is off: fma is written where it is meant.
#pragma once

#if defined(__METAL_VERSION__)
#include "kernels/dialect/metal.h"
#elif defined(__CUDACC__)
#include "kernels/dialect/cuda.h"
#elif defined(KERNEL_BODIES)
#include "kernels/dialect/emulator.h"
#else
#include "kernels/dialect/host.h"
#endif
