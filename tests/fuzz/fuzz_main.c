/* Runs a fuzz target without libFuzzer, so that it is part of every test run, whatever the
 * compiler.
 *
 *   replay_x FILE|FOLDER ...                replay these inputs
 *   replay_x [--mutations N] [--seed S] [FILE|FOLDER ...]
 *                                           the built-in inputs and these, and N mutations of them
 *
 * Mutation k of a seed does not depend on those before it. A failure is repeated with the same
 * arguments; the last line printed says near which mutation it is. */
#include "fuzz.h"

#include "common/philox.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_BYTES 4096

/* What is mutated: the built-in inputs, then files. */
typedef struct inputs {
    fuzz_seed *list;
    size_t n;
} inputs;

static void add_input(inputs *all, const void *bytes, size_t len)
{
    fuzz_seed *more = realloc(all->list, (all->n + 1) * sizeof(*more));
    if (!more) abort();
    all->list = more;
    all->list[all->n++] = (fuzz_seed){ bytes, len };
}

static int replay_file(const char *path, inputs *all)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    uint8_t *data = NULL;
    size_t len = 0, cap = 0;
    for (;;) {
        if (len == cap) {
            cap = cap ? 2 * cap : 65536;
            uint8_t *more = realloc(data, cap);
            if (!more) abort();
            data = more;
        }
        const size_t got = fread(data + len, 1, cap - len, file);
        if (got == 0) break;
        len += got;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, len);
    add_input(all, data, len);
    return 0;
}

static int replay(const char *path, inputs *all)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return replay_file(path, all);
    DIR *folder = opendir(path);
    if (!folder) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    int failed = 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char full[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(full, sizeof(full), "%s/%s", path, entry->d_name);
        failed |= replay_file(full, all);
    }
    closedir(folder);
    return failed;
}

/* Put `n` bytes at `at` in place of `cut` bytes there, as far as there is room. */
static void splice(uint8_t *data, size_t *len, size_t at, size_t cut, const void *bytes, size_t n)
{
    if (cut > *len - at) cut = *len - at;
    if (*len - cut + n > INPUT_BYTES) return;
    memmove(data + at + n, data + at + cut, *len - at - cut);
    if (n > 0) memcpy(data + at, bytes, n);
    *len += n - cut;
}

static void mutate(pkv__rng *rng, const inputs *all, uint8_t *data, size_t *len)
{
    const size_t at = pkv__rng_below(rng, (uint32_t)*len + 1);
    const size_t cut = pkv__rng_below(rng, 4) == 0 ? pkv__rng_below(rng, 20) : 0;
    switch (pkv__rng_below(rng, 5)) {
    case 0: /* flip a bit */
        if (at < *len) data[at] ^= (uint8_t)(1u << pkv__rng_below(rng, 8));
        break;
    case 1: { /* one byte of any value */
        const uint8_t byte = (uint8_t)pkv__rng_below(rng, 256);
        splice(data, len, at, cut, &byte, 1);
        break;
    }
    case 2:
        splice(data, len, at, 1 + pkv__rng_below(rng, 30), NULL, 0);
        break;
    case 3: { /* a word of the grammar */
        const char *word = fuzz_words[pkv__rng_below(rng, (uint32_t)fuzz_n_words)];
        splice(data, len, at, cut, word, strlen(word));
        break;
    }
    default: { /* a piece of another input */
        const fuzz_seed *other = &all->list[pkv__rng_below(rng, (uint32_t)all->n)];
        const size_t from = pkv__rng_below(rng, (uint32_t)other->len + 1);
        const size_t n = pkv__rng_below(rng, (uint32_t)(other->len - from) + 1);
        splice(data, len, at, cut, other->bytes + from, n);
    }
    }
}

static void run_mutations(const inputs *all, uint64_t seed, uint32_t n_mutations)
{
    static uint8_t data[INPUT_BYTES];
    for (uint32_t k = 0; k < n_mutations; k++) {
        pkv__rng rng; /* of its own, so that one number can be looked at alone */
        pkv__rng_init(&rng, seed, k, 0);
        const fuzz_seed *base = &all->list[pkv__rng_below(&rng, (uint32_t)all->n)];
        size_t len = base->len < INPUT_BYTES ? base->len : INPUT_BYTES;
        if (len > 0) memcpy(data, base->bytes, len);
        const uint32_t n = 1 + pkv__rng_below(&rng, 8);
        for (uint32_t m = 0; m < n; m++) mutate(&rng, all, data, &len);
        if (k % 1000 == 0) fprintf(stderr, "seed %llu, from %u on\n", (unsigned long long)seed, k);
        LLVMFuzzerTestOneInput(data, len);
    }
}

int main(int argc, char **argv)
{
    unsigned long long seed = 1, n_mutations = 0;
    int failed = 0, n_paths = 0;
    inputs all = { NULL, 0 };
    for (size_t k = 0; k < fuzz_n_seeds; k++)
        add_input(&all, fuzz_seeds[k].bytes, fuzz_seeds[k].len);
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--seed") == 0 && k + 1 < argc) {
            seed = strtoull(argv[++k], NULL, 10);
        } else if (strcmp(argv[k], "--mutations") == 0 && k + 1 < argc) {
            n_mutations = strtoull(argv[++k], NULL, 10);
        } else {
            n_paths++;
            failed |= replay(argv[k], &all);
        }
    }
    for (size_t k = 0; n_paths == 0 && k < fuzz_n_seeds; k++)
        LLVMFuzzerTestOneInput((const uint8_t *)fuzz_seeds[k].bytes, fuzz_seeds[k].len);
    run_mutations(&all, seed, (uint32_t)n_mutations);
    for (size_t k = fuzz_n_seeds; k < all.n; k++) free((void *)(uintptr_t)all.list[k].bytes);
    free(all.list);
    return failed;
}
