/* Switching stacks: by hand for x86-64 and aarch64, by ucontext elsewhere or with SIMT_UCONTEXT.
 * Control words of the floating-point unit are not switched: nobody here changes them. */
#include "simt_switch.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && !defined(SIMT_UCONTEXT)

/* Kept by the callee: six registers. `ret` takes the address below them. */
__asm__(".text\n"
        ".globl simt_switch\n"
        ".type simt_switch,@function\n"
        ".p2align 4\n"
        "simt_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size simt_switch,.-simt_switch\n");

/* Upwards: six registers, the address of entry, and a return address that nobody uses; after `ret`
 * the stack pointer is 8 off a multiple of 16, as a function expects. */
void *simt_switch_prepare(void *stack, size_t bytes, void (*entry)(void))
{
    uintptr_t *sp = (uintptr_t *)((char *)stack + bytes) - 8;
    memset(sp, 0, 8 * sizeof *sp);
    sp[6] = (uintptr_t)entry;
    return sp;
}

#elif defined(__aarch64__) && !defined(SIMT_UCONTEXT)

/* Kept by the callee: x19 to x29, the low halves of v8 to v15; x30 is where to go on. */
__asm__(".text\n"
        ".globl simt_switch\n"
        ".type simt_switch,%function\n"
        ".p2align 4\n"
        "simt_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size simt_switch,.-simt_switch\n");

void *simt_switch_prepare(void *stack, size_t bytes, void (*entry)(void))
{
    uint64_t *sp = (uint64_t *)((char *)stack + bytes) - 20;
    memset(sp, 0, 20 * sizeof *sp);
    sp[11] = (uint64_t)entry;
    return sp;
}

#else
#include <ucontext.h>

/* The record of a suspended stack lies on that stack. */
void simt_switch(void **from, void *to)
{
    ucontext_t here;
    *from = &here;
    swapcontext(&here, to);
}

void *simt_switch_prepare(void *stack, size_t bytes, void (*entry)(void))
{
    const size_t record = (sizeof(ucontext_t) + 63) / 64 * 64;
    ucontext_t *first = (ucontext_t *)((char *)stack + bytes - record);
    getcontext(first);
    first->uc_stack.ss_sp = stack;
    first->uc_stack.ss_size = bytes - record;
    first->uc_link = NULL;
    makecontext(first, entry, 0);
    return first;
}

#endif
