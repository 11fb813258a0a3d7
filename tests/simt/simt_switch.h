/* Stacks that take turns on one operating-system thread: the smallest piece of the emulator, in C
 * so that it also compiles where there is no C++ compiler (the cross build for aarch64).
 *
 * A suspended stack is one pointer. simt_switch() leaves what the calling convention wants kept on
 * the stack it leaves and goes on with what it finds on the other: a handful of instructions, where
 * swapcontext() asks the kernel for the signal mask (665 ns against 19 ns, on a busy machine). */
#ifndef SIMT_SWITCH_H
#define SIMT_SWITCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Suspend the running stack, keep in *from where it stands, and go on with `to`. Returns when
 * someone switches to *from. Each suspended stack is resumed at most once. */
void simt_switch(void **from, void *to);

/* Make [stack, stack + bytes) a suspended stack which will call entry() when it is first resumed.
 * entry must not return. `stack` and `bytes` are multiples of 64. */
void *simt_switch_prepare(void *stack, size_t bytes, void (*entry)(void));

#ifdef __cplusplus
}
#endif

#endif
