#include "tests/emulated/fiber.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
// This file itself is compiled without ThreadSanitizer's instrumentation: CMake says that the rest has it.
#if defined(RONDO_EMULATED_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

// void rondo_emulated_switch(void** save, void* load): keeps what the x86-64 ABI wants kept, on the stack that it
// leaves.
asm(R"(
.text
.globl rondo_emulated_switch
.type rondo_emulated_switch,@function
rondo_emulated_switch:
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
.size rondo_emulated_switch,.-rondo_emulated_switch
)");
extern "C" void rondo_emulated_switch(void** save, void* load);

namespace rondo::emulated {
namespace {

constexpr size_t own_stack_bytes = size_t{256} << 10;  // only what is touched takes memory
constexpr size_t guard_bytes = 4096;
constexpr int saved_registers = 6;

void* new_stack() {
    void* const made =
        mmap(nullptr, own_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED || mprotect(made, guard_bytes, PROT_NONE) != 0) {
        std::perror("emulated GPU: no memory for a thread's stack");
        std::abort();
    }
    return made;
}

}  // namespace

Fiber::~Fiber() {
    if (!owns_stack_) return;
    munmap(stack_, own_stack_bytes);
#if defined(RONDO_EMULATED_TSAN)
    if (tsan_ != nullptr) __tsan_destroy_fiber(tsan_);
#endif
}

void Fiber::start(void (*entry)()) {
    if (stack_ == nullptr) {
        stack_ = new_stack();
        stack_bytes_ = own_stack_bytes;
        owns_stack_ = true;
    }
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(static_cast<char*>(stack_) + guard_bytes, stack_bytes_ - guard_bytes);
#endif
#if defined(RONDO_EMULATED_TSAN)
    if (tsan_ == nullptr) tsan_ = __tsan_create_fiber(0);
#endif
    // As if `entry` had just been called: the stack's end is 16-byte aligned, its return address never used.
    auto** const top = reinterpret_cast<void**>(static_cast<char*>(stack_) + stack_bytes_ - 16);
    top[0] = reinterpret_cast<void*>(entry);
    for (int i = 1; i <= saved_registers; ++i) top[-i] = nullptr;
    stack_pointer_ = top - saved_registers;
}

void Fiber::adopt_caller() {
#if defined(__SANITIZE_ADDRESS__)
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &stack_, &stack_bytes_);
        pthread_attr_destroy(&attributes);
    }
#endif
#if defined(RONDO_EMULATED_TSAN)
    tsan_ = __tsan_get_current_fiber();
#endif
}

void Fiber::tell_sanitizers([[maybe_unused]] void** kept, [[maybe_unused]] Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(kept, to.stack_, to.stack_bytes_);
#endif
#if defined(RONDO_EMULATED_TSAN)
    __tsan_switch_to_fiber(to.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::switch_to(Fiber& to) {
    void* kept = nullptr;
    tell_sanitizers(&kept, to);
    rondo_emulated_switch(&stack_pointer_, to.stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
}

void Fiber::leave_for(Fiber& to) {
    tell_sanitizers(nullptr, to);
    rondo_emulated_switch(&stack_pointer_, to.stack_pointer_);
    std::abort();
}

void Fiber::give_up([[maybe_unused]] const void* place) {
#if defined(RONDO_EMULATED_TSAN)
    void* const caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_, __tsan_switch_to_fiber_no_sync);
    __tsan_release(const_cast<void*>(place));
    __tsan_switch_to_fiber(caller, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::entered() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void release([[maybe_unused]] const void* place) {
#if defined(RONDO_EMULATED_TSAN)
    __tsan_release(const_cast<void*>(place));
#endif
}

void acquire([[maybe_unused]] const void* place) {
#if defined(RONDO_EMULATED_TSAN)
    __tsan_acquire(const_cast<void*>(place));
#endif
}

}  // namespace rondo::emulated
