/* What a run found: one row per case and side, and everything a reader needs to judge it. Tables,
 * CSV and JSON are made from this and from nothing else. */
#ifndef PKV_BENCH_REPORT_H
#define PKV_BENCH_REPORT_H

#include "bench_base.h"
#include "bench_stats.h"
#include "machine_info.h"

/* Which table a row belongs to. */
enum bench_group {
    GROUP_KERNEL,   /* attention, paged against contiguous */
    GROUP_MOVES,    /* writing, copying, gathering, merging */
    GROUP_POOL,     /* table A: get and free of blocks */
    GROUP_BLOCKMGR, /* table B: operations of the block manager */
    GROUP_CAPACITY, /* concurrent sequences in a budget */
    GROUP_SHARE,    /* what the prefix cache finds */
    GROUP_SERVE,    /* an engine under load, by placement */
    GROUP_MODEL,    /* passes of the reference transformer */
    GROUP_ENGINE,   /* what is not a time of one call: what its engine adds, and does under load */
    GROUP_COUNT
};
/* "kernel", "moves", "pool", "blockmgr", "capacity", "share", "serve", "model", "engine" */
const char *bench_group_name(enum bench_group group);

struct bench_param {
    char name[20], value[44];
};
struct bench_value {
    char name[28];
    double value;
};
#define ROW_MAX_PARAMS 16
#define SIDE_MAX_PARAMS 10
#define ROW_MAX_GOALS 3
#define ROW_MAX_VALUES 28

struct bench_correct {
    bool checked, ok;
    bool has_errors; /* the three below are set */
    double max_abs, max_rel;
    double bound_used;     /* largest |error| / bound; above 1 is wrong */
    int32_t renamed_equal; /* 1: not one bit changed; 0: it did; -1: not applicable */
    char text[160];        /* what was wrong */
};

struct bench_goal {
    char name[8];  /* "C1"; empty: none of docs/kernels.md */
    char text[72]; /* "ratio <= 1.10" */
    double limit, value;
    bool at_least;     /* else at most */
    bool has_interval; /* of value, 95 % */
    double lo, hi;
    bool met;
};

struct bench_row {
    char id[144];     /* stable: the key of comparisons */
    char case_id[96]; /* rows of one case have it in common */
    char label[72];   /* how tables call it */
    enum bench_group group;
    char layout[24]; /* "" if it has none */
    int32_t family;  /* of the case: a level and a number of threads */
    char versus[24]; /* what ratio_to is, in a word */
    char line[64];   /* what values x and line_ns are about; "": no line */
    int32_t n_params, n_values, n_goals;
    struct bench_param params[ROW_MAX_PARAMS];
    struct bench_value values[ROW_MAX_VALUES];
    struct bench_correct correct;
    int64_t bytes_needed, bytes_distinct; /* 0: not a memory case */
    double flops;                         /* 0: arithmetic is not the point */
    bool in_cache;                        /* working set below 4 times the last-level cache */
    double *samples_ns; /* [stats.n] in the order taken, ns per operation; owned */
    struct bench_stats stats;
    bool has_ratio;
    char ratio_to[144];
    struct bench_ratio ratio;
    bool has_share; /* of the rate of the yardstick timed in the same rounds */
    char share_to[144];
    struct bench_ratio share;
    struct bench_goal goals[ROW_MAX_GOALS];
    char published[96]; /* figure of others, with source; "" if none */
    char note[120];
    char repro[288];
};

struct bench_skip {
    char id[144], reason[144];
};

struct bench_report {
    int32_t n_rows, rows_cap;
    struct bench_row **rows;
    int32_t n_skips, skips_cap;
    struct bench_skip *skips;
    struct machine_info machine;
    char command[512], profile[8];
    uint64_t seed;
    char started_utc[32];
    double wall_s, limit_s; /* limit 0: none */
    bool has_aa, noisy;     /* noisy: the A/A check tells the baseline from itself */
    struct bench_ratio aa_first, aa_last;
    int64_t peak_rss_bytes;
    int64_t preempted; /* involuntary context switches while running; -1 unknown */
    bool published;    /* tables end with the published figures */
    bool wrong;
};

/* A new zeroed row at the end, owned by the report. NULL: no memory, `err` says so. */
struct bench_row *bench_report_add(struct bench_report *report, struct bench_error *err);
bool bench_report_skip(struct bench_report *report, const char *id, const char *reason,
                       struct bench_error *err);
void bench_report_free(struct bench_report *report);

/* Text values are cut at their size; a parameter or value beyond the maximum is our own mistake. */
void bench_row_param(struct bench_row *row, const char *name, const char *fmt, ...)
    BENCH_PRINTF(3, 4);
void bench_row_value(struct bench_row *row, const char *name, double value);
const char *bench_row_get_param(const struct bench_row *row, const char *name); /* "" if absent */
bool bench_row_get_value(const struct bench_row *row, const char *name, double *out);

/* 10^9 floating-point operations a second of the median; 0 if arithmetic is not the point. */
double bench_row_gflops(const struct bench_row *row);
/* The next goal of a row, judged: value and limit have to be set. */
void bench_row_goal(struct bench_row *row, const struct bench_goal *goal);
/* Are all goals met? True without any. */
bool bench_row_goals_met(const struct bench_row *row);
/* GB/s of the median, from bytes_needed; 0 if not a memory case. */
double bench_row_gbs(const struct bench_row *row);
/* Its share of the machine's read bandwidth. False where one of the two is unknown or was measured
 * in the caches: a share would mean nothing. */
bool bench_row_share(const struct bench_report *report, const struct bench_row *row, double *out);

#endif
