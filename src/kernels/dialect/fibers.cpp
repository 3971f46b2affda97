#include "kernels/dialect/fibers.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define KAPITSA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KAPITSA_ASAN 1
#endif
#endif

#ifdef KAPITSA_ASAN
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

// switch_stacks(from, to): keeps what a call must keep on this stack, notes where in *from, and goes on at
// `to`.
extern "C" void kapitsa_switch_stacks(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
    .text
    .globl kapitsa_switch_stacks
    .type kapitsa_switch_stacks, @function
kapitsa_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size kapitsa_switch_stacks, .-kapitsa_switch_stacks
)");
#elif defined(__aarch64__)
#if defined(__APPLE__)
#define SWITCH_NAME "_kapitsa_switch_stacks"
#else
#define SWITCH_NAME "kapitsa_switch_stacks"
#endif
asm("    .text\n    .globl " SWITCH_NAME "\n    .p2align 2\n" SWITCH_NAME R"(:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#else
#error "the emulator's fibers know x86-64 and arm64"
#endif

namespace kapitsa::emulator {

thread_local Group* Group::current_ = nullptr;

/// A stack on which threads of groups run, one after the other; a guard page lies below it.
class Fiber {
public:
    Fiber() {
        memory_ = static_cast<char*>(::mmap(nullptr, guard + stack_bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        CHECK(memory_ != MAP_FAILED);
        CHECK(::mprotect(memory_, guard, PROT_NONE) == 0);
        // What switch_stacks takes off the stack: registers that mean nothing yet, then where to go on.
        auto** top = reinterpret_cast<void**>(memory_ + guard + stack_bytes);
#if defined(__x86_64__)
        top -= 2;  // the stack is a multiple of 16 before a call, and enter() believes to have been called
        top[0] = reinterpret_cast<void*>(&Fiber::enter);
        top[1] = nullptr;
        top -= 6;
        std::memset(static_cast<void*>(top), 0, 6 * sizeof *top);
#else
        top -= 20;
        std::memset(static_cast<void*>(top), 0, 20 * sizeof *top);
        top[11] = reinterpret_cast<void*>(&Fiber::enter);  // x30
#endif
        stack_ = static_cast<void*>(top);
    }
    Fiber(const Fiber&) = delete;
    ~Fiber() { ::munmap(memory_, guard + stack_bytes); }

    /// From the scheduler into the fiber, until it gives way.
    void resume() {
#ifdef KAPITSA_ASAN
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, memory_ + guard, stack_bytes);
#endif
        kapitsa_switch_stacks(&scheduler_, stack_);
#ifdef KAPITSA_ASAN
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    }
    /// From the fiber back to the scheduler.
    void yield() {
#ifdef KAPITSA_ASAN
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, below_, below_bytes_);
#endif
        kapitsa_switch_stacks(&stack_, scheduler_);
#ifdef KAPITSA_ASAN
        __sanitizer_finish_switch_fiber(fake, &below_, &below_bytes_);
#endif
    }

    bool finished = true;

private:
#ifdef KAPITSA_ASAN
    static constexpr std::size_t stack_bytes = 512 * 1024;
#else
    static constexpr std::size_t stack_bytes = 64 * 1024;
#endif
    static constexpr std::size_t guard = 16 * 1024;

    /// A fiber's whole life: thread after thread, of group after group.
    static void enter() {
#ifdef KAPITSA_ASAN
        Fiber* self = Group::current().fibers_[Group::current().running_].get();
        __sanitizer_finish_switch_fiber(nullptr, &self->below_, &self->below_bytes_);
#endif
        for (;;) {
            Group& group = Group::current();
            const std::uint32_t index = group.running_;
            group.thread_(group.context_, index);
            group.fibers_[index]->finished = true;
            --group.alive_;
            ++group.progress_;
            group.fibers_[index]->yield();
        }
    }

    char* memory_;
    void* stack_;
    void* scheduler_ = nullptr;
#ifdef KAPITSA_ASAN
    const void* below_ = nullptr;
    std::size_t below_bytes_ = 0;
#endif
};

std::vector<std::unique_ptr<Fiber>>& Group::fibers_here() {
    static thread_local std::vector<std::unique_ptr<Fiber>> fibers;
    return fibers;
}
Group::Group() : fibers_(fibers_here()) {}
Group::~Group() = default;

void Group::run(const char* name, std::uint32_t threads, Thread thread, const void* context) {
    CHECK(threads > 0 && threads % 32 == 0 && threads <= 1024);
    current_ = this;
    name_ = name;
    thread_ = thread;
    context_ = context;
    threads_ = alive_ = threads;
    group_ = {.size = threads};
    simdgroups_.assign(threads / 32, {});
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
    for (std::uint32_t i = 0; i < threads; ++i) fibers_[i]->finished = false;
    while (alive_ > 0) {
        const std::uint64_t before = progress_;
        for (std::uint32_t first = 0; first < threads; first += 32)
            for (std::uint64_t seen = ~progress_; seen != progress_;) {
                seen = progress_;
                for (std::uint32_t i = first; i < first + 32; ++i)
                    if (!fibers_[i]->finished) resume(i);
            }
        if (progress_ == before) {
            const Scope& waiting = group_.arrived ? group_ : simdgroups_[running_ / 32].scope;
            std::fprintf(stderr, "%s: not all threads of the group reach %s\n", name_,
                         waiting.word ? waiting.word : "its end");
            std::abort();
        }
    }
    current_ = nullptr;
}

void Group::resume(std::uint32_t index) {
    running_ = index;
    fibers_[index]->resume();
}

void Group::yield() {
    const std::uint32_t index = running_;
    fibers_[index]->yield();
}

void Group::arrive(Scope& scope, const char* word) {
    if (scope.arrived == 0) scope.word = word;
    if (scope.word != word) {
        std::fprintf(stderr, "%s: thread %u calls %s where others wait at %s\n", name_, running_, word,
                     scope.word);
        std::abort();
    }
    ++progress_;
    const std::uint64_t generation = scope.generation;
    if (++scope.arrived == scope.size) {
        scope.arrived = 0;
        ++scope.generation;
        return;
    }
    while (scope.generation == generation) yield();
}

}  // namespace kapitsa::emulator
