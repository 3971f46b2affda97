// The bodies of the matrix products, and of all else that reads weights, for nvcc.
#include "kernels/blocks.h"
#include "kernels/embed.h"
#include "kernels/ngrams.h"
