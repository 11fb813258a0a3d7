/* Counts of what was exercised. */
#include "coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KINDS = 24, MAX_FEATURES = 48, MAX_WRONG = 128, MAX_LEVELS = PKV_ISA_CUDA + 1 };

struct feature {
    const char *name;
    bool expected[PKV_DTYPE_COUNT], absent[MAX_LEVELS][PKV_DTYPE_COUNT];
    long n[MAX_LEVELS][PKV_DTYPE_COUNT];
};

struct kind {
    const char *name;
    int n_features;
    struct feature features[MAX_FEATURES];
    bool required[MAX_LEVELS][PKV_DTYPE_COUNT];
};

struct wrong {
    pkv_isa asked, want;
    const char *name;
    long n;
};

static struct kind kinds[MAX_KINDS];
static struct wrong wrongs[MAX_WRONG];
static int n_kinds, n_wrong;

static void full_table(const char *what)
{
    fprintf(stderr, "coverage.c: no room for '%s'\n", what);
    exit(2);
}

static struct kind *find_kind(const char *what)
{
    struct kind *k = kinds;
    while (k < kinds + n_kinds && strcmp(k->name, what) != 0) k++;
    if (k == kinds + n_kinds) {
        if (n_kinds++ == MAX_KINDS) full_table(what);
        k->name = what;
    }
    return k;
}

static struct feature *find(const char *what, const char *name)
{
    struct kind *k = find_kind(what);
    struct feature *f = k->features;
    while (f < k->features + k->n_features && strcmp(f->name, name) != 0) f++;
    if (f == k->features + k->n_features) {
        if (k->n_features++ == MAX_FEATURES) full_table(name);
        f->name = name;
    }
    return f;
}

void cover(const char *what, pkv_isa isa, pkv_dtype dtype, const char *feature)
{
    find(what, feature)->n[isa][dtype]++;
}

void cover_expect(const char *what, const char *feature, pkv_dtype first, pkv_dtype last)
{
    struct feature *f = find(what, feature);
    for (int t = first; t <= (int)last; t++) f->expected[t] = true;
}

void cover_absent(const char *what, pkv_isa isa, pkv_dtype dtype, const char *feature)
{
    find(what, feature)->absent[isa][dtype] = true;
}

static bool expected(const struct feature *f, int isa, int dtype)
{
    return f->expected[dtype] && !f->absent[isa][dtype];
}

void cover_require(const char *what, pkv_isa isa, pkv_dtype first, pkv_dtype last)
{
    struct kind *k = find_kind(what);
    for (int t = first; t <= (int)last; t++) k->required[isa][t] = true;
}

void cover_wrong(pkv_isa asked, const char *name, pkv_isa want)
{
    struct wrong *w = wrongs;
    while (w < wrongs + n_wrong && (w->asked != asked || strcmp(w->name, name) != 0)) w++;
    if (w == wrongs + n_wrong) {
        if (n_wrong++ == MAX_WRONG) full_table(name);
        *w = (struct wrong){ asked, want, name, 0 };
    }
    w->n++;
}

static bool met(const struct kind *k, int isa, int dtype)
{
    for (int i = 0; i < k->n_features; i++)
        if (k->features[i].n[isa][dtype] > 0) return true;
    return false;
}

/* One line per level and dtype: feature and count. */
static int print_line(const struct kind *k, int isa, int dtype, bool full)
{
    int empty = 0, at = printf("%-18s %-10s %-5s", k->name, pkv_isa_name((pkv_isa)isa),
                               pkv_dtype_name((pkv_dtype)dtype));
    for (int i = 0; i < k->n_features; i++) {
        const struct feature *f = &k->features[i];
        const long n = f->n[isa][dtype];
        if (n == 0 && !expected(f, isa, dtype)) continue;
        if (at > 100) at = printf("\n%36s", "") - 1;
        at += printf(" %s %ld", f->name, n);
        empty += n == 0;
    }
    printf("\n");
    for (int i = 0; i < k->n_features && full; i++)
        if (k->features[i].n[isa][dtype] == 0 && expected(&k->features[i], isa, dtype))
            printf("FAILED  %s %s %s was never run with: %s\n", k->name, pkv_isa_name((pkv_isa)isa),
                   pkv_dtype_name((pkv_dtype)dtype), k->features[i].name);
    return empty;
}

/* Nothing at all of what has to exist. */
static int print_missing(const struct kind *k, int isa, int dtype, bool full)
{
    if (!full || !k->required[isa][dtype]) return 0;
    printf("FAILED  %s %s %s was never run\n", k->name, pkv_isa_name((pkv_isa)isa),
           pkv_dtype_name((pkv_dtype)dtype));
    return 1;
}

int cover_print(bool full)
{
    int empty = 0;
    for (const struct kind *k = kinds; k < kinds + n_kinds; k++)
        for (int isa = 0; isa < MAX_LEVELS; isa++)
            for (int t = 0; t < PKV_DTYPE_COUNT; t++)
                empty +=
                    met(k, isa, t) ? print_line(k, isa, t, full) : print_missing(k, isa, t, full);
    for (const struct wrong *w = wrongs; w < wrongs + n_wrong; w++)
        printf("FAILED  level %s: %ld units went to %s, not to a kernel of %s\n",
               pkv_isa_name(w->asked), w->n, w->name, pkv_isa_name(w->want));
    return n_wrong + (full ? empty : 0);
}
