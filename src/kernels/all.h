// Every kernel there is.
#pragma once

#include "kernels/attend.h"
#include "kernels/blocks.h"
#include "kernels/choose_tokens.h"
#include "kernels/delta_net.h"
#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/experts.h"
#include "kernels/mamba2.h"
#include "kernels/multiply.h"
#include "kernels/multiply_experts.h"
#include "kernels/ngrams.h"
#include "kernels/rms_norm.h"
#include "kernels/short_conv.h"
#include "kernels/sparse_attend.h"
#include "kernels/streams.h"
#include "kernels/unit_norm.h"
