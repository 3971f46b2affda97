#include "backend/backend.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/emulator/emulator_backend.h"

#include <cstdlib>

namespace kapitsa {

std::string default_backend() {
    const char* name = std::getenv("KAPITSA_BACKEND");
    return name && *name ? name : "cpu";
}

Result<std::unique_ptr<Backend>> open_backend(std::string_view name, const BackendOptions& options) {
    if (name == "cpu" || name == "cpu-f64") return cpu::open_cpu_backend(options, name == "cpu-f64");
    if (name == "cuda") return cuda::open_cuda_backend();
    if (name == "emulator") return emulator::open_emulator_backend();
    return fail(Fault::unsupported, "there is no backend \"" + std::string(name) +
                                        "\" in this build; there are: cpu, cpu-f64, cuda, emulator");
}

}  // namespace kapitsa
