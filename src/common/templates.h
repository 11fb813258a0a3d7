/* Macros for code that is written once and compiled for many constants.
 *
 * A function marked PKV_TEMPLATE takes element types, tile sizes and the like as arguments; it is
 * inlined into small functions that pass constants, so that every test of them is decided when
 * compiling. PKV_UNROLL stands before a loop whose count is then a constant of at most 32. */
#ifndef PKV_TEMPLATES_H
#define PKV_TEMPLATES_H

#define PKV_TEMPLATE static inline __attribute__((always_inline, unused))
#if defined(__clang__)
#define PKV_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PKV_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
