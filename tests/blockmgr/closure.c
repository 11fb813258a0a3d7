/* Exhaustive closure of the shipped block manager on a small configuration.
 *
 * Breadth first over all states that any sequence of calls can reach: the arena of a state is
 * copied, every call of a fixed repertoire is made on the copy, and the result is a new state or a
 * known one. States are compared up to the names of blocks (ids carry no meaning) and generations
 * of handles. After every call the full invariants are checked; a refused call must leave the
 * digest alone; and every row must hold, token by token, what its sequence wrote, through the
 * copies that the manager planned.
 *
 *   closure --blocks 5 --seqs 3 --max-blocks 3 --block-tokens 2 --vocab 1 --partial
 *
 * Prints states, transitions, depth, and "closed" or "stopped" (at --max-states). */
#include "blockmgr/blockmgr_internal.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_BLOCKS = 16, MAX_SEQS = 6, MAX_TOKENS = 16, MAX_T = 4 };

struct options {
    int blocks, seqs, max_blocks, block_tokens, vocab, namespaces;
    bool partial, lru;
    long max_states;
};

/* What the world outside the manager knows: the tokens of every sequence and the bytes of every
 * slot. One simulated byte string per slot: (hash of the sequence up to and with that token). */
struct world {
    pkv_seq seq[MAX_SEQS];
    int32_t n_tokens[MAX_SEQS];
    int8_t ns[MAX_SEQS]; /* -1: not open */
    uint8_t tokens[MAX_SEQS][MAX_TOKENS];
    uint32_t slots[MAX_BLOCKS + 1][MAX_T];
};

struct state {
    struct world world;
    int depth;
    unsigned char *arena;
};

static const struct options usual = { 5, 3, 3, 2, 1, 1, false, false, 2000000 };
static struct options opt;
static size_t arena_bytes;
static unsigned char *scratch_arena;
static struct world scratch;
static pkv_ns namespaces[2];
static long n_transitions, n_refused;
static char last_call[96];

static void die(const char *what)
{
    fprintf(stderr, "FAILED: %s after %s\n", what, last_call);
    exit(1);
}

static pkv_blockmgr *mgr(void)
{
    return (pkv_blockmgr *)(void *)scratch_arena;
}

static void complain(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx, (void)level;
    if (strstr(text, "block manager: I")) fprintf(stderr, "%s\n", text);
}

/* ---- the bytes */
static uint32_t mix(uint32_t h, uint32_t x)
{
    return (h ^ x) * 0x9e3779b1u + (h >> 15) + 1;
}

static uint32_t content(const struct world *w, int s, int upto)
{
    uint32_t h = 7 + (uint32_t)w->ns[s];
    for (int i = 0; i <= upto; i++) h = mix(h, w->tokens[s][i] + 1u);
    return h;
}

static void run_work(struct world *w, const pkv_block_work *work)
{
    for (int i = 0; i < work->n_copy; i++)
        for (int t = 0; t < opt.block_tokens; t++)
            w->slots[work->copy[i].dst][t] =
                t < work->copy[i].n_tokens ? w->slots[work->copy[i].src][t] : 0xdeadu;
}

static void check_bytes(const struct world *w)
{
    for (int s = 0; s < opt.seqs; s++) {
        const int32_t *row;
        int32_t n;
        if (w->ns[s] < 0) continue;
        if (pkv_seq_row(mgr(), w->seq[s], 0, &row, &n) != PKV_OK) die("a lost sequence");
        for (int i = 0; i < w->n_tokens[s]; i++)
            if (w->slots[row[i / opt.block_tokens]][i % opt.block_tokens] != content(w, s, i))
                die("a row that does not hold its sequence's tokens");
    }
}

static void write_tokens(struct world *w, int s, int n, int token)
{
    const int32_t *row;
    int32_t n_row;
    if (pkv_seq_row(mgr(), w->seq[s], 0, &row, &n_row) != PKV_OK) die("a lost sequence");
    for (int i = w->n_tokens[s]; i < w->n_tokens[s] + n; i++) {
        w->tokens[s][i] = (uint8_t)token;
        w->slots[row[i / opt.block_tokens]][i % opt.block_tokens] = content(w, s, i);
    }
    w->n_tokens[s] += n;
}

/* ---- the name of a state: everything that later answers depend on, blocks renamed by first use */
struct naming {
    struct pkv__siphash a, b;
    int32_t name[MAX_BLOCKS + 1];
    int32_t n_named;
};

static void add(struct naming *k, int64_t x)
{
    pkv__siphash_u64(&k->a, (uint64_t)x);
    pkv__siphash_u64(&k->b, (uint64_t)x);
}

static void add_block(struct naming *k, int32_t b)
{
    if (b == NONE) { /* of a connector */
        add(k, NONE);
        return;
    }
    if (k->name[b] == 0) k->name[b] = ++k->n_named;
    add(k, k->name[b]);
}

static void add_node(struct naming *k, const pkv_blockmgr *m, int32_t id)
{
    const struct node *n = node_at(m, id);
    add(k, n->n_tokens);
    for (int32_t i = 0; i < n->n_tokens; i++) add(k, node_tokens(m, id)[i]);
    add(k, n->hit);
    add(k, n->floor);
    add_block(k, n->at[0].block);
    for (int32_t b = n->at[0].oldest_spare; b != NONE; b = blocks_of(m)[b].next) add_block(k, b);
    add(k, -1);
    for (int32_t c = n->first_child; c != NONE; c = node_at(m, c)->older) add_node(k, m, c);
    add(k, -2);
}

static void name_state(const pkv_blockmgr *m, uint64_t key[2])
{
    struct naming k = { .n_named = 0 };
    pkv__siphash_init(&k.a, 1, 2);
    pkv__siphash_init(&k.b, 3, 4);
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        add(&k, s->life);
        if (s->life == SEQ_FREE) continue;
        const int32_t fields[] = { s->ns,      s->settled, s->committed, s->reserved,
                                   s->n_units, s->claim,   s->ended };
        for (size_t f = 0; f < PKV_ARRAY_LEN(fields); f++) add(&k, fields[f]);
        for (int32_t f = 0; f < blocks_for(&m->groups[0], s->reserved); f++)
            add_block(&k, row_of(m, s, 0)[f]);
        for (int32_t f = s->n_units * m->unit; f < s->committed && !s->ended; f++)
            add(&k, tail_tokens(m, s)[f - s->n_units * m->unit]);
    }
    for (int c = 0; c < N_CLASSES; c++, add(&k, -3))
        for (int32_t b = m->lists[c].head; b != NONE; b = blocks_of(m)[b].next) add_block(&k, b);
    for (int32_t i = 0; i < opt.namespaces; i++, add(&k, -4)) {
        const int32_t idx = pkv__ns_find(m, namespaces[i]);
        for (int32_t id = namespaces_of(m)[idx].first_child; id != NONE; id = node_at(m, id)->older)
            add_node(&k, m, id);
    }
    key[0] = pkv__siphash_end(&k.a, 0, 0);
    key[1] = pkv__siphash_end(&k.b, 0, 0);
}

/* ---- known states and the queue */
static uint64_t (*known)[2];
static size_t known_slots;
static struct state *queue;
static long n_states, queue_cap;
static int max_depth;

static bool remember(const uint64_t key[2])
{
    size_t at = (size_t)key[0] & (known_slots - 1);
    while (known[at][0] | known[at][1]) {
        if (known[at][0] == key[0] && known[at][1] == key[1]) return false;
        at = (at + 1) & (known_slots - 1);
    }
    known[at][0] = key[0], known[at][1] = key[1];
    return true;
}

static void enqueue(int depth)
{
    if (n_states == queue_cap) {
        queue_cap = queue_cap ? 2 * queue_cap : 1024;
        queue = realloc(queue, (size_t)queue_cap * sizeof *queue);
    }
    struct state *s = &queue[n_states++];
    s->arena = queue ? aligned_alloc(64, arena_bytes) : NULL;
    if (!s->arena) die("out of memory");
    memcpy(s->arena, scratch_arena, arena_bytes);
    s->world = scratch;
    s->depth = depth;
    if (depth > max_depth) max_depth = depth;
}

/* ---- the repertoire. Each call returns the manager's status and keeps the world in step. */
static pkv_block_work *new_work(void)
{
    static int32_t zero[MAX_BLOCKS];
    static pkv_block_copy copy[MAX_SEQS];
    static pkv_block_work work;
    work = (pkv_block_work){ sizeof work, zero, MAX_BLOCKS, 0, copy, MAX_SEQS, 0 };
    return &work;
}

static pkv_status do_open(int s, int ns)
{
    const pkv_status status = pkv_seq_open(mgr(), namespaces[ns], &scratch.seq[s]);
    if (status == PKV_OK) scratch.ns[s] = (int8_t)ns, scratch.n_tokens[s] = 0;
    return status;
}

static pkv_status do_reserve(const int *seqs, int n_seqs, int n)
{
    pkv_reserve_req reqs[MAX_SEQS];
    pkv_block_work *work = new_work();
    for (int i = 0; i < n_seqs; i++) reqs[i] = (pkv_reserve_req){ scratch.seq[seqs[i]], n };
    const pkv_status status = pkv_seq_reserve(mgr(), reqs, n_seqs, work);
    if (status == PKV_OK) run_work(&scratch, work);
    return status;
}

static pkv_status do_commit(int s, int n, int token)
{
    int32_t ids[MAX_TOKENS];
    for (int i = 0; i < n; i++) ids[i] = token;
    const pkv_tokens tokens = { ids, n, NULL, 0 };
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    if (pkv_seq_info(mgr(), scratch.seq[s], &info) != PKV_OK) die("a lost sequence");
    if (n <= info.reserved - info.committed) write_tokens(&scratch, s, n, token);
    return pkv_seq_commit(mgr(), scratch.seq[s], &tokens, PKV_STEP_NONE);
}

static pkv_status do_truncate(int s, int n)
{
    const pkv_status status = pkv_seq_truncate(mgr(), scratch.seq[s], n);
    if (status == PKV_OK && n < scratch.n_tokens[s]) scratch.n_tokens[s] = n;
    return status;
}

static pkv_status do_fork(int s, int child)
{
    const pkv_status status = pkv_seq_fork(mgr(), scratch.seq[s], &scratch.seq[child], 1);
    if (status != PKV_OK) return status;
    scratch.ns[child] = scratch.ns[s];
    scratch.n_tokens[child] = scratch.n_tokens[s];
    memcpy(scratch.tokens[child], scratch.tokens[s], sizeof scratch.tokens[s]);
    return status;
}

static pkv_status do_close(int s)
{
    const pkv_status status = pkv_seq_close(mgr(), scratch.seq[s]);
    if (status == PKV_OK) scratch.ns[s] = -1, scratch.n_tokens[s] = 0;
    return status;
}

/* A prompt of n tokens, all equal but the last. */
static pkv_status do_match(int s, int n, int last, int upto)
{
    int32_t ids[MAX_TOKENS] = { 0 };
    pkv_match match = PKV_MATCH_INIT;
    pkv_block_work *work = new_work();
    if (n > 0) ids[n - 1] = last;
    const pkv_tokens prompt = { ids, n, NULL, 0 };
    const pkv_status status = pkv_seq_match(mgr(), scratch.seq[s], &prompt, n, upto, work, &match);
    if (status != PKV_OK) return status;
    run_work(&scratch, work);
    for (int i = 0; i < match.claimed; i++) scratch.tokens[s][i] = (uint8_t)ids[i];
    scratch.n_tokens[s] = match.claimed;
    return status;
}

/* ---- one transition */
static void restore(const struct state *from)
{
    memcpy(scratch_arena, from->arena, arena_bytes);
    scratch = from->world;
}

static void judge(const struct state *from, pkv_status status)
{
    uint64_t key[2];
    n_transitions++;
    if (pkv_blockmgr_check(mgr(), 3) != PKV_OK) die("an invariant is broken");
    if (status != PKV_OK) {
        uint8_t before[16], after[16];
        n_refused++;
        pkv_blockmgr_digest((const pkv_blockmgr *)(const void *)from->arena, before);
        pkv_blockmgr_digest(mgr(), after);
        if (memcmp(before, after, sizeof before) != 0) die("a refusal that changed something");
        return;
    }
    check_bytes(&scratch);
    name_state(mgr(), key);
    if (remember(key)) enqueue(from->depth + 1);
}

#define TRY(from, call, ...)                                                                       \
    do {                                                                                           \
        restore(&(from));                                                                          \
        snprintf(last_call, sizeof last_call, __VA_ARGS__);                                        \
        judge(&(from), call);                                                                      \
    } while (0)

static int free_seq_of(const struct world *w)
{
    for (int s = 0; s < opt.seqs; s++)
        if (w->ns[s] < 0) return s;
    return -1;
}

static void expand_sequence(const struct state from, int s)
{
    const int T = opt.block_tokens, longest = T * opt.max_blocks;
    const struct seq_rec *rec = seq_find((pkv_blockmgr *)(void *)from.arena, from.world.seq[s]);
    const int room = rec->reserved - rec->committed, vacant = free_seq_of(&from.world);
    TRY(from, do_reserve(&s, 1, 1), "reserve(%d, 1)", s);
    if (T > 1) TRY(from, do_reserve(&s, 1, T), "reserve(%d, %d)", s, T);
    for (int v = 0; v < opt.vocab; v++) {
        TRY(from, do_commit(s, 1, v), "commit(%d, 1 x %d)", s, v);
        if (room > 1) TRY(from, do_commit(s, room, v), "commit(%d, %d x %d)", s, room, v);
    }
    for (int n = 0; n <= rec->reserved; n++) TRY(from, do_truncate(s, n), "truncate(%d, %d)", s, n);
    if (vacant >= 0) TRY(from, do_fork(s, vacant), "fork(%d)", s);
    TRY(from, do_close(s), "close(%d)", s);
    for (int n = 1; n <= longest && rec->committed == 0; n++)
        for (int v = 0; v < opt.vocab; v++) {
            TRY(from, do_match(s, n, v, 0), "match(%d, %d, %d, 0)", s, n, v);
            TRY(from, do_match(s, n, v, n), "match(%d, %d, %d, %d)", s, n, v, n);
        }
}

static void expand(long idx)
{
    struct state from = queue[idx]; /* the queue may move */
    int open[MAX_SEQS], n_open = 0;
    const int vacant = free_seq_of(&from.world);
    for (int s = 0; s < opt.seqs; s++)
        if (from.world.ns[s] >= 0) open[n_open++] = s;
    for (int ns = 0; ns < opt.namespaces && vacant >= 0; ns++)
        TRY(from, do_open(vacant, ns), "open(%d)", ns);
    for (int i = 0; i < n_open; i++) expand_sequence(from, open[i]);
    if (n_open > 1) TRY(from, do_reserve(open, n_open, 1), "reserve(all, 1)");
    free(queue[idx].arena);
    queue[idx].arena = NULL;
}

static void start(void)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    pkv_ns_params other = PKV_NS_PARAMS_INIT;
    pkv_blockmgr *m;
    uint64_t key[2];
    cfg.n_blocks = opt.blocks + 1;
    cfg.block_tokens = opt.block_tokens;
    cfg.max_seqs = opt.seqs;
    cfg.max_seq_tokens = opt.block_tokens * opt.max_blocks;
    cfg.max_namespaces = 2;
    cfg.max_extras = 1;
    cfg.flags = PKV_MGR_PREFIX_CACHE | (opt.partial ? PKV_MGR_PARTIAL_HITS : 0) |
                (opt.lru ? PKV_MGR_PLAIN_LRU : 0);
    cfg.log.fn = complain;
    arena_bytes = pkv_blockmgr_bytes(&cfg);
    scratch_arena = aligned_alloc(64, arena_bytes);
    if (!scratch_arena || pkv_blockmgr_init(scratch_arena, arena_bytes, &cfg, &m) != PKV_OK)
        die("no manager could be made");
    other.salt = "x", other.salt_bytes = 1;
    if (opt.namespaces > 1 && pkv_ns_open(m, &other, &namespaces[1]) != PKV_OK) die("ns_open");
    memset(&scratch, 0, sizeof scratch);
    memset(scratch.ns, -1, sizeof scratch.ns);
    for (known_slots = 1024; known_slots < 4 * (size_t)opt.max_states; known_slots *= 2) {}
    known = calloc(known_slots, sizeof *known);
    if (!known) die("out of memory");
    name_state(m, key);
    remember(key);
    enqueue(0);
}

static void usage(void)
{
    printf(
        "Usage: closure [options]\n"
        "Makes every call in every state that a small block manager can reach, and checks each.\n"
        "  --blocks N        usable blocks, 1 .. %d (%d)\n"
        "  --seqs N          sequences, 1 .. %d (%d)\n"
        "  --max-blocks N    blocks that a sequence may hold, 1 .. %d (%d)\n"
        "  --block-tokens N  tokens per block, 1 .. %d (%d)\n"
        "  --vocab N         different tokens, 1 .. 4 (%d)\n"
        "  --namespaces N    1 or 2 (%d)\n"
        "  --partial         partial hits (off)\n"
        "  --lru             plain LRU eviction (off)\n"
        "  --max-states N    stop there, which is no failure (%ld)\n"
        "  --help            this text\n"
        "Prints states, transitions, depth, and \"closed\" or \"stopped\". The last line is\n"
        "`N passed, N failed, N skipped`. Exit: 0 all right, 1 a failure, 2 unusable "
        "arguments.\n",
        MAX_BLOCKS, usual.blocks, MAX_SEQS, usual.seqs, MAX_TOKENS / MAX_T, usual.max_blocks, MAX_T,
        usual.block_tokens, usual.vocab, usual.namespaces, usual.max_states);
}

static int number(const char *text, int lo, int hi, const char *name)
{
    char *end;
    errno = 0;
    const long x = strtol(text, &end, 10);
    if (*text && !*end && errno == 0 && x >= lo && x <= hi) return (int)x;
    fprintf(stderr, "closure: --%s takes %d .. %d, not \"%s\"\n", name, lo, hi, text);
    exit(2);
}

static void parse(int argc, char **argv)
{
    static const struct option longs[] = {
        { "blocks", 1, NULL, 'b' },       { "seqs", 1, NULL, 's' },  { "max-blocks", 1, NULL, 'm' },
        { "block-tokens", 1, NULL, 't' }, { "vocab", 1, NULL, 'v' }, { "namespaces", 1, NULL, 'n' },
        { "partial", 0, NULL, 'p' },      { "lru", 0, NULL, 'l' },   { "max-states", 1, NULL, 'x' },
        { "help", 0, NULL, 'h' },         { NULL, 0, NULL, 0 }
    };
    bool help = false;
    opt = usual;
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) switch (c) {
        case 'b':
            opt.blocks = number(optarg, 1, MAX_BLOCKS, "blocks");
            break;
        case 's':
            opt.seqs = number(optarg, 1, MAX_SEQS, "seqs");
            break;
        case 'm':
            opt.max_blocks = number(optarg, 1, MAX_TOKENS / MAX_T, "max-blocks");
            break;
        case 't':
            opt.block_tokens = number(optarg, 1, MAX_T, "block-tokens");
            break;
        case 'v':
            opt.vocab = number(optarg, 1, 4, "vocab");
            break;
        case 'n':
            opt.namespaces = number(optarg, 1, 2, "namespaces");
            break;
        case 'p':
            opt.partial = true;
            break;
        case 'l':
            opt.lru = true;
            break;
        case 'x':
            opt.max_states = number(optarg, 1, 100000000, "max-states");
            break;
        case 'h':
            help = true;
            break;
        default:
            fputs("closure: --help lists the options\n", stderr);
            exit(2);
        }
    if (help) {
        usage();
        exit(0);
    }
    if (optind == argc) return;
    fprintf(stderr, "closure: '%s' is not an option; --help lists them\n", argv[optind]);
    exit(2);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    start();
    long done = 0;
    for (; done < n_states && n_states < opt.max_states; done++) expand(done);
    const bool closed = done == n_states;
    printf("blocks %d, sequences %d, at most %d blocks each, %d tokens per block, vocabulary %d, "
           "namespaces %d%s%s\n",
           opt.blocks, opt.seqs, opt.max_blocks, opt.block_tokens, opt.vocab, opt.namespaces,
           opt.partial ? ", partial hits" : "", opt.lru ? ", plain LRU" : "");
    printf("%s: %ld states, %ld transitions (%ld refused), depth %d\n",
           closed ? "closed" : "stopped", n_states, n_transitions, n_refused, max_depth);
    for (long i = done; i < n_states; i++) free(queue[i].arena);
    free(queue);
    free(known);
    free(scratch_arena);
    printf("1 passed, 0 failed, 0 skipped\n");
    return 0;
}
