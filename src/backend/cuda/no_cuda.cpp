// A build without CUDA: the name is known, and the reason why it does not open.
#include "backend/cuda/cuda_backend.h"

namespace kapitsa::cuda {

Result<std::unique_ptr<Backend>> open_cuda_backend() {
    return fail(
        Fault::unsupported,
        "this kapitsa was built without CUDA: configure with -DKAPITSA_CUDA=ON where nvcc (CUDA 12.8 or "
        "newer) is on the PATH, or use --backend cpu");
}

}  // namespace kapitsa::cuda
