// How fast is a matrix product with few rows, by the form of its weights? Usage: multiply_bench [FORM...]
// One JSON object a line: weights and bytes of weights that pass in a second. One thread, and its processor
// time: what one core needs, whatever else the machine does. The bytes are random; no form is faster for what
// they say.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "kernels/blocks.h"

namespace {

using namespace kapitsa;

constexpr uint columns = 4096, outputs = 2048;
constexpr int repeats = 20;

double seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Measured {
    Backend& backend;
    std::vector<uchar> bytes = std::vector<uchar>(std::size_t(columns) * outputs * 4);
    std::vector<float> x = std::vector<float>(std::size_t(columns) * 4, 0.5f),
                       y = std::vector<float>(outputs * 4);

    template <typename Args>
    void print(Kernel<Args> kernel, Args args, double weight_bytes) {
        args.x = x.data();
        args.count = 1;
        args.columns = columns;
        args.parts[0].y = y.data();
        args.parts[0].outputs = outputs;
        for (const uint rows : {1u, 4u, 32u}) {
            args.rows = rows;
            x.resize(std::size_t(columns) * rows, 0.5f);
            y.resize(std::size_t(outputs) * rows);
            args.x = x.data();
            args.parts[0].y = y.data();
            double best = 1e9;
            for (int i = 0; i < repeats; ++i) {
                const double begin = seconds();
                backend.launch(kernel, args);
                if (!backend.run()) return;
                best = std::min(best, seconds() - begin);
            }
            std::printf(
                "{\"kernel\": \"%s\", \"rows\": %u, \"gigaweights_per_second\": %.2f, "
                "\"gigabytes_per_second\": %.2f}\n",
                kernel.name, rows, columns * double(outputs) / best / 1e9, weight_bytes / best / 1e9);
        }
    }
};

}  // namespace

int main(int count, char** arguments) {
    const auto backend = open_backend("cpu", {.threads = 1});
    if (!backend) return 1;
    Measured measured{**backend};
    std::mt19937 random(1);
    // Bytes of 0x20 to 0x3f: every scale that they may be read as is then an ordinary number.
    for (uchar& byte : measured.bytes) byte = uchar(0x20 | (random() & 0x1f));
    const uchar* bytes = measured.bytes.data();
    const auto wanted = [&](std::string_view name) {
        return count == 1 ||
               std::any_of(arguments + 1, arguments + count, [&](const char* a) { return name == a; });
    };

    if (wanted("bf16")) {
        MultiplyDense<bfloat> args{};
        args.parts[0].weight = reinterpret_cast<const bfloat*>(bytes);
        measured.print(multiply_bf16, args, 2.0 * columns * outputs);
    }
    if (wanted("affine4")) {
        MultiplyAffine<bfloat> args{};
        args.parts[0].codes = reinterpret_cast<const uint*>(bytes);
        args.parts[0].scales = args.parts[0].biases = reinterpret_cast<const bfloat*>(bytes);
        args.group = 64;
        measured.print(multiply_affine4_bf16, args, columns * double(outputs) * 4.5 / 8);
    }
    for (uint number = 0; number < block_form_count; ++number) {
        if (!wanted(block_names[number])) continue;
        const BlockShape shape = block_shapes[number];
        MultiplyBlocks args{};
        args.parts[0].blocks = args.parts[0].scales = bytes;
        args.row_bytes = columns / shape.values * shape.bytes;
        args.scale_bytes = columns / shape.values * shape.scales;
        measured.print(multiply_blocks[number], args, double(outputs) * (args.row_bytes + args.scale_bytes));
    }
    return 0;
}
