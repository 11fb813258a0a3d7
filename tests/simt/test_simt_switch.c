/* Stacks that take turns: each goes on where it was, with its own variables, whichever the order. A
 * plain program that speaks TAP, since the cross build for aarch64 has no cmocka. */
#include "simt_switch.h"

#include <stdint.h>
#include <stdio.h>

enum { N_STACKS = 5, STACK_BYTES = 64 << 10, N_ROUNDS = 200 };

static struct {
    _Alignas(64) char stacks[N_STACKS][STACK_BYTES];
    void *suspended[N_STACKS];
    void *host;
    int running;
    double sums[N_STACKS];
    uint64_t hashes[N_STACKS];
    int rounds[N_STACKS];
    int misaligned;
} t;

/* More live variables than there are registers a caller may lose: integers and doubles. */
static void take_turns(void)
{
    const int me = t.running;
    double a = me + 0.5, b = me * 3, c = 1, d = 2, e = me, f = 5;
    uint64_t h = 1, i = 2, j = 3, k = 4, l = 5, m = (uint64_t)me;
    for (;;) {
        _Alignas(16) volatile char local[16];
        t.misaligned += (uintptr_t)local % 16 != 0;
        a += 1, b += a, c += b, d += c, e += d, f += e;
        h = h * 31 + 1, i ^= h, j += i, k ^= j * 7, l += k, m = m * 13 + l;
        t.sums[me] = a + b + c + d + e + f;
        t.hashes[me] = h + i + j + k + l + m;
        t.rounds[me]++;
        simt_switch(&t.suspended[me], t.host);
    }
}

/* The same, straight. */
static int as_expected(int me)
{
    double a = me + 0.5, b = me * 3, c = 1, d = 2, e = me, f = 5;
    uint64_t h = 1, i = 2, j = 3, k = 4, l = 5, m = (uint64_t)me;
    for (int round = 0; round < t.rounds[me]; round++) {
        a += 1, b += a, c += b, d += c, e += d, f += e;
        h = h * 31 + 1, i ^= h, j += i, k ^= j * 7, l += k, m = m * 13 + l;
    }
    return t.sums[me] == a + b + c + d + e + f && t.hashes[me] == h + i + j + k + l + m;
}

int main(void)
{
    int kept = 1, n_rounds = 0;
    uint32_t random = 12345;
    printf("1..2\n");
    for (int s = 0; s < N_STACKS; s++)
        t.suspended[s] = simt_switch_prepare(t.stacks[s], STACK_BYTES, take_turns);
    for (int round = 0; round < N_ROUNDS; round++) {
        random = random * 1664525 + 1013904223;
        t.running = (int)((random >> 16) % N_STACKS);
        simt_switch(&t.host, t.suspended[t.running]);
    }
    for (int s = 0; s < N_STACKS; s++) {
        kept &= t.rounds[s] > 0 && as_expected(s);
        n_rounds += t.rounds[s];
    }
    printf("%s 1 - every stack kept its variables\n",
           kept && n_rounds == N_ROUNDS ? "ok" : "not ok");
    printf("%s 2 - stacks are aligned\n", t.misaligned == 0 ? "ok" : "not ok");
    return !(kept && n_rounds == N_ROUNDS && t.misaligned == 0);
}
