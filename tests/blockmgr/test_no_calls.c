/* After init the manager allocates nothing, takes no lock and makes no system call.
 *
 * Twice proved: this program puts its own functions in front of the C library's allocation,
 * mapping and locking and counts calls while a long mix of all operations runs; and the same mix
 * runs in a child that has given up all system calls but read, write and exit (seccomp strict
 * mode), where any other one ends it with SIGKILL. That both means bite is tested as well. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_tables.h"

#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer) || !defined(__GLIBC__)
#define INTERPOSE                                                                                  \
    0 /* the sanitizers stand in front of the same functions, and make system calls                \
       */
#else
#define INTERPOSE 1
#endif

static volatile int armed, n_calls;

#if INTERPOSE
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void __libc_free(void *p);
extern void *__libc_memalign(size_t align, size_t bytes);

static void count(void)
{
    if (armed) n_calls++;
}

void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes)
{
    count();
    return __libc_realloc(p, bytes);
}
void free(void *p)
{
    count();
    __libc_free(p);
}
void *aligned_alloc(size_t align, size_t bytes)
{
    count();
    return __libc_memalign(align, bytes);
}
void *memalign(size_t align, size_t bytes);
void *memalign(size_t align, size_t bytes)
{
    count();
    return __libc_memalign(align, bytes);
}
int posix_memalign(void **out, size_t align, size_t bytes)
{
    count();
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : 12;
}
void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    count();
    return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset); // NOLINT
}
int munmap(void *at, size_t bytes)
{
    count();
    return (int)syscall(SYS_munmap, at, bytes);
}
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);
    count();
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return next(mutex);
}
#endif

/* ---------------------------------------------------------------- the mix */

enum { MIX_SEQS = 6, MIX_TOKENS = 64, MIX_RAW = 6, MIX_SLOTS = 4, MIX_FN = 45 };

typedef struct mix {
    pkv_blockmgr *m;
    uint64_t rng;
    pkv_seq seq[MIX_SEQS + 1]; /* the last one is stale for ever */
    pkv_ns ns;
    pkv_step step[MIX_SLOTS]; /* open ones, and {0} */
    pkv_hold hold[MIX_SLOTS]; /* running and expired ones, and {0} */
    int32_t raw[MIX_RAW], n_raw;
    uint64_t now;
    int n_open;
    uint32_t did[MIX_FN], refused; /* OK calls per function */
} mix;

static uint32_t draw(mix *x, uint32_t n)
{
    x->rng = x->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(x->rng >> 33) % n;
}

static void note(mix *x, int fn, pkv_status st)
{
    if (st == PKV_OK) x->did[fn]++;
    else x->refused++;
}

static pkv_tokens some_tokens(mix *x, int32_t *ids, pkv_extra *ex)
{
    uint32_t text = draw(x, 4), differs = draw(x, MIX_TOKENS);
    for (uint32_t k = 0; k < MIX_TOKENS; k++) ids[k] = (int32_t)(text + (k > differs));
    *ex = (pkv_extra){ (int32_t)draw(x, 20), 3, { (uint8_t)text } };
    pkv_tokens t = { ids, (int32_t)draw(x, MIX_TOKENS + 1), ex, 0 };
    t.n_extras = ex->first < t.n;
    return t;
}

static void change_something(mix *x, uint32_t fn, pkv_seq s, pkv_tokens *t)
{
    int32_t zero[128];
    pkv_block_copy copy[8];
    pkv_block_work w = { sizeof w, zero, 128, 0, copy, 8, 0 };
    pkv_match match = PKV_MATCH_INIT;
    pkv_reserve_req q[2] = { { s, (int32_t)draw(x, 12) - 1 }, { x->seq[draw(x, MIX_SEQS)], 1 } };
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    pkv_status st = PKV_OK;
    uint32_t at;
    switch (fn) {
    case 0:
        if (x->n_open == MIX_SEQS) break;
        st = pkv_seq_open(x->m, draw(x, 2) ? x->ns : (pkv_ns){ 0 }, &x->seq[x->n_open]);
        x->n_open += st == PKV_OK;
        break;
    case 1:
        st = pkv_seq_match(x->m, s, t, t->n - 1, t->n, &w, &match);
        break;
    case 2:
        st = pkv_seq_reserve(x->m, q, 1 + (int32_t)draw(x, 2), &w);
        break;
    case 3:
        if (pkv_seq_info(x->m, s, &info) == PKV_OK) t->n = info.reserved - info.committed;
        t->n_extras = t->extras->first < t->n && draw(x, 2);
        st = pkv_seq_commit(x->m, s, t, x->step[draw(x, MIX_SLOTS)]);
        break;
    case 4:
        if (x->n_open == MIX_SEQS) break;
        st = pkv_seq_fork(x->m, s, &x->seq[x->n_open], 1);
        x->n_open += st == PKV_OK;
        break;
    case 5:
        st = pkv_seq_truncate(x->m, s, (int32_t)draw(x, 50));
        break;
    case 6:
        if (!x->n_open) break;
        at = draw(x, (uint32_t)x->n_open);
        st = pkv_seq_close(x->m, x->seq[at]);
        x->seq[MIX_SEQS] = x->seq[at];
        x->seq[at] = x->seq[--x->n_open];
        break;
    case 7:
        p.salt = "x", p.salt_bytes = 1;
        st = pkv_ns_open(x->m, &p, &x->ns);
        break;
    default:
        st = pkv_ns_close(x->m, x->ns);
        break;
    }
    note(x, (int)fn, st);
}

static void ask_something(mix *x, uint32_t fn, pkv_seq s, const pkv_tokens *t)
{
    pkv_match match = PKV_MATCH_INIT;
    pkv_need need = PKV_NEED_INIT;
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    pkv_blockmgr_stats_t stats = PKV_BLOCKMGR_STATS_INIT;
    pkv_reserve_req q = { s, 3 };
    const int32_t *ids;
    int32_t n;
    int64_t slots[4];
    uint8_t digest[16];
    pkv_status st = PKV_OK;
    switch (fn) {
    case 9:
        st = pkv_seq_row(x->m, s, 0, &ids, &n);
        break;
    case 10:
        st = pkv_blockmgr_rows(x->m, 0, &ids, &n);
        break;
    case 11:
        st = pkv_seq_slots(x->m, s, 0, 0, 2, slots);
        break;
    case 12:
        st = pkv_seq_info(x->m, s, &info);
        break;
    case 13:
        st = pkv_blockmgr_probe(x->m, x->ns, t, &match);
        break;
    case 14:
        st = pkv_blockmgr_need(x->m, &q, 1, &need);
        break;
    case 15:
        pkv_blockmgr_stats(x->m, &stats);
        break;
    case 16:
        pkv_blockmgr_digest(x->m, digest);
        break;
    default:
        st = pkv_blockmgr_check(x->m, (int)fn - 16);
        break;
    }
    note(x, (int)fn, st);
}

static pkv_status steps_and_policy(mix *x, uint32_t fn, pkv_seq s)
{
    int32_t zero[128], evicted;
    pkv_block_copy copy[8];
    pkv_block_work w = { sizeof w, zero, 128, 0, copy, 8, 0 };
    pkv_step *step = &x->step[draw(x, MIX_SLOTS)];
    pkv_status st;
    switch (fn) {
    case 20:
        return step->v ? PKV_E_LIMIT : pkv_step_begin(x->m, step);
    case 21:
    case 22:
        st = fn == 21 ? pkv_step_retire(x->m, *step) : pkv_step_abort(x->m, *step);
        step->v = 0;
        return st;
    case 23:
        return pkv_seq_retain(x->m, s, 0, (int32_t)draw(x, 8), (int32_t)draw(x, 9));
    case 24:
        return pkv_blockmgr_decay(x->m);
    case 25:
        return pkv_blockmgr_evict(x->m, (int32_t)draw(x, 3), &evicted);
    case 26:
        return draw(x, 20) ? PKV_OK : pkv_blockmgr_new_epoch(x->m);
    default:
        return pkv_seq_snapshot(x->m, s, &w);
    }
}

static pkv_status tables(mix *x, uint32_t fn, pkv_seq s)
{
    pkv_table_range ranges[MIX_SEQS];
    pkv_delta d = PKV_DELTA_INIT;
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    int32_t ids[MIX_SEQS * MIX_TOKENS], n, local;
    int64_t slots[4];
    v.kernel_tokens = 2;
    switch (fn) {
    case 28:
        return pkv_table_delta(x->m, 0, ranges, MIX_SEQS, ids, MIX_SEQS * MIX_TOKENS, &d);
    case 29:
        return pkv_table_resync(x->m, 0);
    case 30:
        return pkv_seqs_common(x->m, x->seq, x->n_open, 0, &n);
    case 31:
        return pkv_seq_view_slots(x->m, s, 0, &v, 0, 4, slots);
    default:
        return pkv_seq_view_row(x->m, s, 0, &v, ids, MIX_SEQS * MIX_TOKENS, &n, &local);
    }
}

static pkv_status poll_holds(mix *x)
{
    pkv_hold_result done[MIX_SLOTS];
    int32_t n = 0;
    pkv_status st = pkv_blockmgr_poll(x->m, ++x->now, done, MIX_SLOTS, &n);
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; k < MIX_SLOTS; k++)
            if (x->hold[k].v == done[i].hold.v && done[i].end != PKV_HOLD_EXPIRED) x->hold[k].v = 0;
    return st;
}

static pkv_status holds(mix *x, uint32_t fn, pkv_seq s)
{
    pkv_hold *h = &x->hold[draw(x, MIX_SLOTS)];
    pkv_swap_copy copy[16];
    int32_t ids[16], n;
    pkv_status st;
    if (h->v && (fn == 33 || fn >= 38)) return PKV_E_LIMIT; /* no place to keep it */
    switch (fn) {
    case 33:
        return pkv_hold_open(x->m, s, 1 + (int32_t)draw(x, 8), x->now + draw(x, 40), h);
    case 34:
        return pkv_hold_blocks(x->m, *h, 0, ids, 16, &n);
    case 35:
        pkv_hold_post(x->m, *h, draw(x, 3) ? PKV_OK : PKV_E_IO);
        return PKV_OK;
    case 36:
        return poll_holds(x);
    case 37:
        st = pkv_hold_reclaim(x->m, *h);
        if (st == PKV_OK) h->v = 0;
        return st;
    case 38:
        return pkv_seqs_suspend(x->m, &s, 1, x->now + 30, copy, 16, &n, h);
    default:
        return pkv_seqs_resume(x->m, &s, 1, x->now + 30, copy, 16, &n, h);
    }
}

static pkv_status raw_blocks(mix *x, uint32_t fn, const pkv_tokens *t)
{
    int32_t zero[4], n, at = x->n_raw ? (int32_t)draw(x, (uint32_t)x->n_raw) : 0;
    pkv_block_work w = { sizeof w, zero, 4, 0, NULL, 0, 0 };
    pkv_tokens unit = { t->ids, 4, NULL, 0 };
    pkv_status st = PKV_OK;
    switch (fn) {
    case 40:
        if (x->n_raw == MIX_RAW) break;
        st = pkv_blocks_take(x->m, 1, &x->raw[x->n_raw], &w);
        x->n_raw += st == PKV_OK;
        break;
    case 41:
        if (x->n_raw == 0 || x->n_raw == MIX_RAW) break;
        st = pkv_blocks_ref(x->m, &x->raw[at], 1);
        if (st == PKV_OK) x->raw[x->n_raw++] = x->raw[at];
        break;
    case 42:
        if (x->n_raw == 0) break;
        st = pkv_blocks_unref(x->m, &x->raw[at], 1);
        x->raw[at] = x->raw[--x->n_raw];
        break;
    case 43:
        if (x->n_raw) st = pkv_block_publish(x->m, x->ns, 0, &unit, x->raw[at]);
        break;
    default:
        st = pkv_blocks_lookup(x->m, x->ns, t, &x->raw[x->n_raw], MIX_RAW - x->n_raw, &n);
        if (st == PKV_OK) x->n_raw += n;
        break;
    }
    return st;
}

static void second_layer(mix *x, uint32_t fn, pkv_seq s, const pkv_tokens *t)
{
    pkv_status st = fn < 28   ? steps_and_policy(x, fn, s)
                    : fn < 33 ? tables(x, fn, s)
                    : fn < 40 ? holds(x, fn, s)
                              : raw_blocks(x, fn, t);
    note(x, (int)fn, st);
}

/* Uses no function of the C library but memcpy and its kind. */
static void run_mix(mix *x, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t ids[MIX_TOKENS];
        pkv_extra ex;
        pkv_tokens t = some_tokens(x, ids, &ex);
        pkv_seq s = x->seq[draw(x, 40) ? draw(x, MIX_SEQS) : MIX_SEQS];
        uint32_t fn = draw(x, 3) ? draw(x, 9) : draw(x, MIX_FN);
        if (fn == 8 && draw(x, 8)) fn = 2;
        if (fn < 9) change_something(x, fn, s, &t);
        else if (fn < 20) ask_something(x, fn, s, &t);
        else second_layer(x, fn, s, &t);
    }
}

static void keep_quiet(void *ctx, pkv_log_level level, const char *text)
{
    volatile char last = text[0];
    (void)ctx, (void)level, (void)last;
}

static mix new_mix(fx **f)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 50;
    cfg.block_tokens = 4;
    cfg.max_seqs = MIX_SEQS;
    cfg.max_seq_tokens = MIX_TOKENS;
    cfg.max_extras = 8;
    cfg.n_host_blocks = 40;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    cfg.zero_policy = PKV_ZERO_ON_DOMAIN_CHANGE;
    cfg.log = (pkv_logger){ keep_quiet, NULL };
    *f = fx_from(&cfg);
    return (mix){ .m = (*f)->m, .rng = 42 };
}

static bool all_done(const mix *x)
{
    bool all = x->refused > 0;
    for (int i = 0; i < MIX_FN; i++) all = all && x->did[i] > 0;
    return all;
}

static void nothing_of_the_library_is_called(void **state)
{
    (void)state;
    if (!INTERPOSE) {
        fprintf(stderr, "SKIPPED: a sanitizer stands in front of the C library\n");
        skip();
    }
    fx *f;
    mix x = new_mix(&f);
    armed = 1;
    run_mix(&x, 200000);
    armed = 0;
    assert_int_equal(n_calls, 0);
    assert_true(all_done(&x));
    assert_true(fx_stats(f).evicted_blocks > 100 && fx_stats(f).copies > 100);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* the means do count */
    armed = 1;
    void *volatile one = malloc(1);
    free(one);
    pthread_mutex_lock(&mutex);
    armed = 0;
    pthread_mutex_unlock(&mutex);
    assert_int_equal(n_calls, 3);
    fx_end(f);
}

/* Exit status of a child in strict mode: 0 all done, 1 not, 2 no strict mode; -1: killed. */
static int in_strict_mode(mix *x, bool with_a_system_call)
{
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(2);
        run_mix(x, 200000);
        if (with_a_system_call) syscall(SYS_getppid);
        syscall(SYS_exit, all_done(x) ? 0 : 1);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) assert_int_equal(WTERMSIG(status), SIGKILL);
    return WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);
}

static void no_system_call_is_made(void **state)
{
    (void)state;
    fx *f;
    mix x = new_mix(&f);
    int status = INTERPOSE ? in_strict_mode(&x, false) : 2;
    if (status == 2) {
        fprintf(stderr, "SKIPPED: no seccomp strict mode here, or a sanitizer\n");
        fx_end(f);
        skip();
    }
    assert_int_equal(status, 0);
    assert_int_equal(in_strict_mode(&x, true), -1); /* the means do bite */
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_library_is_called),
        cmocka_unit_test(no_system_call_is_made),
    };
    return cmocka_run_group_tests_name("no_calls", tests, NULL, NULL);
}
