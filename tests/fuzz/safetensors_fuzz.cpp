// Any bytes as a safetensors file. What is accepted must keep the reader's promise: names occur once, and the
// tensors cover the end of the file without overlap or hole.
#include <cstring>
#include <set>
#include <vector>

#include "base/check.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    const Bytes file = std::as_bytes(std::span(data, size));
    const auto tensors = read_safetensors(file);
    if (!tensors) {
        CHECK(!tensors.error().message.empty());
        return 0;
    }
    std::set<std::string> names;
    std::size_t covered = 0;
    const std::byte* end = nullptr;
    for (const TensorEntry& tensor : *tensors) {
        CHECK(names.insert(tensor.name).second);
        CHECK(end == nullptr || tensor.bytes.data() == end);
        end = tensor.bytes.data() + tensor.bytes.size();
        std::uint64_t elements = 1;
        for (const std::uint64_t extent : tensor.shape) elements *= extent;
        CHECK(elements * element_bytes(tensor.type) == tensor.bytes.size());
        covered += tensor.bytes.size();
    }
    CHECK(end == nullptr || end == file.data() + size);
    CHECK(covered <= size - 8);
    return 0;
}
