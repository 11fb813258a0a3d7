/* Exhaustive closure of the shipped block manager on a small configuration.
 *
 * Breadth first over all states that any sequence of calls can reach: the arena of a state is
 * copied, every call of a fixed repertoire is made on the copy, and the result is a new state or a
 * known one. After every call the full invariants are checked; a refused call must leave digest and
 * name of the state alone; every row, every findable block, every held block and every host block
 * must hold, token by token, what its sequences wrote, with steps that write as early and as late
 * as they may; and no block is handed on while a step that was open at its release still is.
 *
 *   closure --blocks 8 --seqs 4 --max-blocks 4
 *   closure --blocks 4 --seqs 2 --max-blocks 2 --steps 2
 *
 * Prints states, transitions, depth, and "closed" or "stopped" (at --max-states). A failure prints
 * the calls that lead to it, the fewest there are. */
#include "closure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

/* How a state was found first, and, until its calls have been made, the state itself. */
struct found {
    int32_t parent;
    struct call call;
    uint8_t depth;
    unsigned char *packed;
    unsigned char *twin; /* --verify: the same state, found in another way */
};

static const struct options usual = { .blocks = 5,
                                      .seqs = 3,
                                      .max_blocks = 3,
                                      .block_tokens = 1,
                                      .vocab = 1,
                                      .namespaces = 1,
                                      .block_tokens_2 = 1,
                                      .window = 2,
                                      .groups = "full",
                                      .max_states = 500000 };
struct options opt;
unsigned char *scratch_arena;
struct world scratch;
pkv_ns namespaces[2];

static size_t arena_bytes;
static unsigned char *from_arena; /* the state whose calls are made */
static struct world from_world;
static uint64_t from_key[2];
static long from = -1;
static struct call trying;

struct name {
    uint64_t key[2];
    int32_t state;
};
static struct name *known;
static size_t known_slots;
static uint64_t outcome; /* of all calls of the present state, in no order */
static long n_verified, n_digests;
static struct found *queue;
static long n_states, queue_cap, n_transitions, n_refused;
static int max_depth;

static void print_path(long state)
{
    if (state <= 0) return;
    print_path(queue[state].parent);
    print_call(&queue[state].call);
}

void die(const char *what)
{
    fprintf(stderr, "FAILED: %s\nThe calls:\n", what);
    print_path(from);
    if (from >= 0) print_call(&trying);
    printf("0 passed, 1 failed, 0 skipped\n");
    exit(1);
}

static void complain(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx, (void)level;
    if (strstr(text, "block manager: I")) fprintf(stderr, "%s\n", text);
}

/* ---- states at rest: runs of zeros are left out. [n zeros, n others, the others] ... */
static size_t pack(unsigned char *out, const unsigned char *p, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        uint16_t run[2] = { 0, 0 };
        while (i < n && p[i] == 0 && run[0] < UINT16_MAX) i++, run[0]++;
        const size_t start = i;
        while (i < n && (p[i] != 0 || (i + 4 < n && (p[i + 1] | p[i + 2] | p[i + 3]) != 0)) &&
               i - start < UINT16_MAX)
            i++;
        run[1] = (uint16_t)(i - start);
        memcpy(out + at, run, sizeof run);
        memcpy(out + at + sizeof run, p + start, run[1]);
        at += sizeof run + run[1];
    }
    return at;
}

static const unsigned char *unpack(unsigned char *p, size_t n, const unsigned char *in)
{
    for (size_t i = 0; i < n; in += 4) {
        uint16_t run[2];
        memcpy(run, in, sizeof run);
        memset(p + i, 0, run[0]);
        memcpy(p + i + run[0], in + 4, run[1]);
        i += (size_t)run[0] + run[1], in += run[1];
    }
    return in;
}

/* The state of that name, which becomes the next one if it is new. */
static long find_state(const uint64_t key[2])
{
    size_t at = (size_t)key[0] & (known_slots - 1);
    for (; known[at].key[0] | known[at].key[1]; at = (at + 1) & (known_slots - 1))
        if (known[at].key[0] == key[0] && known[at].key[1] == key[1]) return known[at].state;
    known[at] = (struct name){ { key[0], key[1] }, (int32_t)n_states };
    return n_states;
}

/* The state in scratch, packed. */
static unsigned char *pack_state(void)
{
    static unsigned char *room;
    if (!room) room = malloc(4 * (arena_bytes + sizeof scratch));
    if (!room) die("out of memory");
    size_t n = pack(room, scratch_arena, arena_bytes);
    n += pack(room + n, (unsigned char *)&scratch, sizeof scratch);
    unsigned char *packed = malloc(n);
    if (!packed) die("out of memory");
    memcpy(packed, room, n);
    return packed;
}

static void unpack_state(unsigned char *packed)
{
    const unsigned char *in = unpack(from_arena, arena_bytes, packed);
    (void)unpack((unsigned char *)&from_world, sizeof from_world, in);
    free(packed);
}

static void enqueue(int depth)
{
    if (n_states == queue_cap) {
        queue_cap = queue_cap ? 2 * queue_cap : 1024;
        queue = realloc(queue, (size_t)queue_cap * sizeof *queue);
    }
    if (!queue) die("out of memory");
    queue[n_states++] = (struct found){ (int32_t)from, trying, (uint8_t)depth, pack_state(), NULL };
    if (depth > max_depth) max_depth = depth;
}

/* Equal digests mean equal answers: states of one digest have one name, apart from the world. As
 * many as fit are remembered. */
static void check_digest(void)
{
    static uint64_t(*seen)[4]; /* digest, name */
    static size_t n;
    uint64_t is[4];
    if (!seen) seen = calloc(known_slots, sizeof *seen);
    if (!seen) die("out of memory");
    pkv_blockmgr_digest(mgr(), (uint8_t *)is);
    name_state(mgr(), &scratch, false, is + 2);
    size_t at = (size_t)is[0] & (known_slots - 1);
    for (; seen[at][0] | seen[at][1]; at = (at + 1) & (known_slots - 1)) {
        if (seen[at][0] != is[0] || seen[at][1] != is[1]) continue;
        if (seen[at][2] != is[2] || seen[at][3] != is[3]) die("two states of one digest");
        n_digests++;
        return;
    }
    if (n++ < known_slots / 2) memcpy(seen[at], is, sizeof is);
}

/* ---- one transition */
static void judge_refusal(pkv_status status)
{
    uint64_t key[2];
    uint8_t before[16], after[16];
    n_refused++;
    name_state(mgr(), &from_world, true, key);
    pkv_blockmgr_digest((const pkv_blockmgr *)(const void *)from_arena, before);
    pkv_blockmgr_digest(mgr(), after);
    if (memcmp(before, after, sizeof before) != 0 || key[0] != from_key[0] || key[1] != from_key[1])
        die("a refusal that changed something");
    if (status == PKV_E_AGAIN) check_again(&trying);
}

static void try_call(void)
{
    uint64_t key[2];
    memcpy(scratch_arena, from_arena, arena_bytes);
    scratch = from_world;
    n_transitions++;
    const pkv_status status = make_call(&trying);
    const uint64_t kind = (uint64_t)trying.kind << 8 | (uint64_t)status;
    if (pkv_blockmgr_check(mgr(), 3) != PKV_OK) die("an invariant is broken");
    if (status != PKV_OK) {
        outcome += pkv__siphash_bytes(5, 6, 1, 3, &kind, sizeof kind);
        judge_refusal(status);
        return;
    }
    check_reuse(&scratch, (const pkv_blockmgr *)(const void *)from_arena);
    check_bytes(&scratch);
    check_delta(&scratch);
    if (opt.digests) check_digest();
    name_state(mgr(), &scratch, true, key);
    outcome += pkv__siphash_bytes(key[0], key[1], 1, 3, &kind, sizeof kind);
    const long state = find_state(key);
    if (state == n_states) enqueue(queue[from].depth + 1);
    else if (opt.verify && queue[state].packed && !queue[state].twin && state > from)
        queue[state].twin = pack_state();
}

/* All calls of the state in from_arena and from_world. */
static void try_all(void)
{
    static struct call calls[MAX_CALLS];
    memcpy(scratch_arena, from_arena, arena_bytes);
    scratch = from_world;
    name_state(mgr(), &from_world, true, from_key);
    outcome = 0;
    const int n = list_calls(calls);
    for (int i = 0; i < n; i++) {
        trying = calls[i];
        try_call();
    }
}

/* The name of a state says everything: what was found in another way answers every call alike. */
static void expand(long state)
{
    from = state;
    unsigned char *twin = queue[state].twin;
    unpack_state(queue[state].packed);
    queue[state].packed = NULL;
    try_all();
    if (!twin) return;
    const uint64_t first = outcome;
    unpack_state(twin);
    try_all();
    n_verified++;
    if (outcome != first) die("two states of one name that answer differently");
}

/* ---- the beginning */
static const char *const kinds[] = {
    [PKV_GROUP_FULL] = "full",
    [PKV_GROUP_SLIDING] = "sliding",
    [PKV_GROUP_CHUNKED] = "chunked",
    [PKV_GROUP_STATE] = "state",
};

/* The group whose kind `text` begins with; how long the word is, 0 if it is none. */
static size_t parse_group(const char *text, int place, pkv_group *out)
{
    for (int kind = 0; kind < (int)PKV_ARRAY_LEN(kinds); kind++) {
        const size_t n = strlen(kinds[kind]);
        if (strncmp(text, kinds[kind], n) != 0 || (text[n] != 0 && text[n] != '+')) continue;
        *out = (pkv_group){ .kind = (pkv_group_kind)kind };
        if (kind == PKV_GROUP_STATE) out->state_blocks = 1;
        else out->block_tokens = place == 0 ? opt.block_tokens : opt.block_tokens_2;
        if (kind != PKV_GROUP_SLIDING && kind != PKV_GROUP_CHUNKED) return n;
        out->window_tokens = opt.window, out->sink_tokens = opt.sinks;
        return n;
    }
    return 0;
}

/* How many groups --groups describes; 0 if it does not. */
static int parse_groups(pkv_group *groups)
{
    const char *at = opt.groups;
    for (int n = 0; n < MAX_GROUPS; at++) {
        const size_t word = parse_group(at, n, &groups[n]);
        n++, at += word;
        if (word == 0) return 0;
        if (*at == 0) return n;
    }
    return 0;
}

static void make_manager(void)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    pkv_ns_params other = PKV_NS_PARAMS_INIT;
    pkv_group groups[MAX_GROUPS];
    pkv_blockmgr *m;
    cfg.n_blocks = opt.blocks + 1;
    cfg.max_seqs = opt.seqs;
    cfg.max_seq_tokens = opt.block_tokens * opt.max_blocks;
    cfg.rollback_tokens = opt.rollback;
    cfg.max_namespaces = 2;
    cfg.max_extras = 1;
    cfg.max_steps = opt.steps > 0 ? opt.steps : 1;
    cfg.max_holds = opt.holds + (opt.host > 0 ? 2 : 0);
    if (cfg.max_holds == 0) cfg.max_holds = 1;
    cfg.n_host_blocks = opt.host > 0 ? opt.host + 1 : 0;
    cfg.flags = PKV_MGR_PREFIX_CACHE | (opt.partial ? PKV_MGR_PARTIAL_HITS : 0) |
                (opt.lru ? PKV_MGR_PLAIN_LRU : 0) | (opt.in_order ? PKV_MGR_IN_ORDER : 0);
    cfg.log.fn = complain;
    cfg.groups = groups, cfg.n_groups = parse_groups(groups);
    arena_bytes = pkv_blockmgr_bytes(&cfg);
    scratch_arena = aligned_alloc(64, arena_bytes);
    from_arena = aligned_alloc(64, arena_bytes);
    if (!scratch_arena || !from_arena) die("out of memory");
    memset(scratch_arena, 0, arena_bytes); /* so that what is not used packs well */
    if (pkv_blockmgr_init(scratch_arena, arena_bytes, &cfg, &m) != PKV_OK)
        die("no manager could be made");
    other.salt = "x", other.salt_bytes = 1;
    if (opt.namespaces > 1 && pkv_ns_open(m, &other, &namespaces[1]) != PKV_OK) die("ns_open");
}

static void start(void)
{
    uint64_t key[2];
    make_manager();
    memset(&scratch, 0, sizeof scratch);
    memset(scratch.ns, -1, sizeof scratch.ns);
    for (known_slots = 1024; known_slots < 2 * (size_t)opt.max_states; known_slots *= 2) {}
    known = calloc(known_slots, sizeof *known);
    if (!known) die("out of memory");
    check_bytes(&scratch);
    name_state(mgr(), &scratch, true, key);
    (void)find_state(key);
    enqueue(0);
}

/* ---- options */
struct number {
    const char *name;
    int *at, lo, hi;
    const char *what;
};
static const struct number numbers[] = {
    { "blocks", &opt.blocks, 1, MAX_BLOCKS, "usable blocks" },
    { "seqs", &opt.seqs, 1, MAX_SEQS, "sequences" },
    { "max-blocks", &opt.max_blocks, 1, MAX_TOKENS, "blocks that a sequence may hold" },
    { "block-tokens", &opt.block_tokens, 1, MAX_T, "tokens per block" },
    { "vocab", &opt.vocab, 1, 4, "different tokens" },
    { "namespaces", &opt.namespaces, 1, 2, "namespaces" },
    { "steps", &opt.steps, 0, MAX_STEPS, "open steps at a time" },
    { "host", &opt.host, 0, MAX_HOST - 1, "host blocks: suspend and resume" },
    { "holds", &opt.holds, 0, MAX_HOLDS - 2, "holds on prefixes" },
    { "block-tokens-2", &opt.block_tokens_2, 1, MAX_T, "tokens per block of the second group" },
    { "window", &opt.window, 1, MAX_TOKENS, "window or chunk of the second group" },
    { "sinks", &opt.sinks, 0, MAX_TOKENS, "sink tokens of the second group" },
    { "rollback", &opt.rollback, 0, MAX_TOKENS, "tokens kept behind windows" },
};
struct flag {
    const char *name;
    bool *at;
    const char *what;
};
static const struct flag flags[] = {
    { "partial", &opt.partial, "partial hits" },
    { "lru", &opt.lru, "plain LRU eviction" },
    { "in-order", &opt.in_order, "blocks are reused at once" },
    { "policy", &opt.policy, "priorities, decay, evict, epochs" },
    { "digests", &opt.digests, "states of one digest are one state" },
    { "verify", &opt.verify, "states found twice are tried twice: the same answers" },
};

static void usage(void)
{
    opt = usual;
    printf(
        "Usage: closure [options]\n"
        "Makes every call in every state that a small block manager can reach, and checks each.\n");
    for (size_t i = 0; i < PKV_ARRAY_LEN(numbers); i++)
        printf("  --%-14s N  %s, %d .. %d (%d)\n", numbers[i].name, numbers[i].what, numbers[i].lo,
               numbers[i].hi, *numbers[i].at);
    for (size_t i = 0; i < PKV_ARRAY_LEN(flags); i++)
        printf("  --%-16s  %s (off)\n", flags[i].name, flags[i].what);
    printf("  --%-14s G  full, sliding, chunked, state; or two, as full+state (full)\n"
           "  --%-14s N  stop there, which is no failure (%ld)\n"
           "  --%-16s  this text\n"
           "Prints states, transitions, depth, and \"closed\" or \"stopped\". The last line is\n"
           "`N passed, N failed, N skipped`. Exit: 0 all right, 1 a failure, 2 unusable "
           "arguments.\n",
           "groups", "max-states", usual.max_states, "help");
}

static long number(const char *text, long lo, long hi, const char *name)
{
    char *end;
    errno = 0;
    const long x = strtol(text, &end, 10);
    if (*text && !*end && errno == 0 && x >= lo && x <= hi) return x;
    fprintf(stderr, "closure: --%s takes %ld .. %ld, not \"%s\"\n", name, lo, hi, text);
    exit(2);
}

/* One option of a table, with its value; false if there is none of that name. */
static bool take_option(const char *name, const char *value, bool *used_value)
{
    *used_value = true;
    for (size_t i = 0; i < PKV_ARRAY_LEN(numbers); i++) {
        if (strcmp(name, numbers[i].name) != 0) continue;
        *numbers[i].at = (int)number(value ? value : "", numbers[i].lo, numbers[i].hi, name);
        return true;
    }
    if (strcmp(name, "max-states") == 0) {
        opt.max_states = number(value ? value : "", 1, 100000000, name);
        return true;
    }
    if (strcmp(name, "groups") == 0 && value) {
        opt.groups = value;
        return true;
    }
    *used_value = false;
    for (size_t i = 0; i < PKV_ARRAY_LEN(flags); i++) {
        if (strcmp(name, flags[i].name) != 0) continue;
        *flags[i].at = true;
        return true;
    }
    return false;
}

static void parse(int argc, char **argv)
{
    pkv_group groups[MAX_GROUPS];
    opt = usual;
    for (int i = 1; i < argc; i++) {
        bool used_value;
        if (strcmp(argv[i], "--help") == 0) {
            usage();
            exit(0);
        }
        if (strncmp(argv[i], "--", 2) != 0 ||
            !take_option(argv[i] + 2, i + 1 < argc ? argv[i + 1] : NULL, &used_value)) {
            fprintf(stderr,
                    "closure: '%s' is not an option, or not with this value; --help lists them\n",
                    argv[i]);
            exit(2);
        }
        i += used_value;
    }
    if (parse_groups(groups) == 0 || (strstr(opt.groups, "state") && opt.steps > 0)) {
        fputs("closure: --groups: one or two of full, sliding, chunked, state with + between them; "
              "state without --steps\n",
              stderr);
        exit(2);
    }
    if (opt.block_tokens * opt.max_blocks <= MAX_TOKENS) return;
    fprintf(stderr, "closure: --block-tokens times --max-blocks is at most %d\n", MAX_TOKENS);
    exit(2);
}

int main(int argc, char **argv)
{
    long done = 0;
    parse(argc, argv);
    start();
    for (; done < n_states && n_states < opt.max_states; done++) expand(done);
    for (size_t i = 0; i < PKV_ARRAY_LEN(numbers); i++)
        if (*numbers[i].at > 0) printf("%s %d, ", numbers[i].name, *numbers[i].at);
    for (size_t i = 0; i < PKV_ARRAY_LEN(flags); i++)
        if (*flags[i].at) printf("%s, ", flags[i].name);
    printf("groups %s\n", opt.groups);
    printf("%s: %ld states, %ld transitions (%ld refused), depth %d",
           done == n_states ? "closed" : "stopped", n_states, n_transitions, n_refused, max_depth);
    if (opt.verify) printf(", %ld states tried twice", n_verified);
    if (opt.digests) printf(", %ld digests met again", n_digests);
    putchar('\n');
    for (long i = done; i < n_states; i++) free(queue[i].packed);
    free(queue);
    free(known);
    free(from_arena);
    free(scratch_arena);
    printf("1 passed, 0 failed, 0 skipped\n");
    return 0;
}
