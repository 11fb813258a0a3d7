/* Policies as text: NAME[+PART...][:key=value,...].
 *
 * The canonical text names every key whose value is not implied by the rest: the block of paged,
 * the sequences of a group, the page of vattn always; an allocator or a limit of tokens only where
 * it differs from what the name alone means. Reading it gives back the same policy. */
#include "sim/sim_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_SEQS 64
#define PPM 1000000

typedef struct word {
    const char *text;
    size_t len;
} word;

static bool is(word w, const char *text)
{
    return strlen(text) == w.len && memcmp(w.text, text, w.len) == 0;
}

/* Cut `text` at the first `mark`: what is before it, and behind it; text NULL if there is none. */
static word split(word text, char mark, word *rest)
{
    const char *at = memchr(text.text, mark, text.len);
    *rest = (word){ NULL, 0 };
    if (!at) return text;
    const size_t len = (size_t)(at - text.text);
    *rest = (word){ at + 1, text.len - len - 1 };
    return (word){ text.text, len };
}

/* Decimal digits and nothing else, low .. high. */
static bool parse_int(word value, int32_t low, int32_t high, int32_t *out)
{
    int64_t n = 0;
    if (value.len == 0) return false;
    for (size_t k = 0; k < value.len; k++) {
        if (value.text[k] < '0' || value.text[k] > '9') return false;
        n = 10 * n + (value.text[k] - '0');
        if (n > high) return false;
    }
    if (n < low) return false;
    *out = (int32_t)n;
    return true;
}

/* ---------------------------------------------------------------- names */

static const struct named_kind {
    const char *name;
    pkv_sim_kind kind;
} kinds[] = {
    { "max", PKV_SIM_MAX },
    { "pow2", PKV_SIM_POW2 },
    { "oracle", PKV_SIM_ORACLE },
    { "paged", PKV_SIM_PAGED },
    { "static-batch", PKV_SIM_STATIC_BATCH },
    { "orca-real", PKV_SIM_ORCA_REAL },
    { "vattn", PKV_SIM_VATTN },
};

static const char *name_of(pkv_sim_kind kind)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++)
        if (kinds[k].kind == kind) return kinds[k].name;
    return NULL;
}

static bool parse_kind(word name, pkv_sim_policy *out)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        if (!is(name, kinds[k].name)) continue;
        *out = (pkv_sim_policy)PKV_SIM_POLICY_INIT;
        out->kind = kinds[k].kind;
        if (out->kind != PKV_SIM_PAGED) out->block_tokens = 0;
        if (out->kind == PKV_SIM_VATTN) out->page_bytes = INT64_C(2) << 20;
        return true;
    }
    return false;
}

/* What stands behind a plus sign, for paged only. */
typedef struct parts {
    bool prefix, swap, recompute, fork, beam;
} parts;

static bool *part_of(parts *p, word name)
{
    if (is(name, "prefix")) return &p->prefix;
    if (is(name, "swap")) return &p->swap;
    if (is(name, "recompute")) return &p->recompute;
    if (is(name, "fork")) return &p->fork;
    return is(name, "beam") ? &p->beam : NULL;
}

/* Why the parts of a name are refused; NULL if they are not. */
static const char *parse_parts(word rest, pkv_sim_policy *out)
{
    parts p = { 0 };
    while (rest.text) {
        const word name = split(rest, '+', &rest);
        bool *part = part_of(&p, name);
        if (!part) return "known behind a + are prefix, swap, recompute, fork and beam";
        if (*part) return "one of its parts is named twice";
        *part = true;
    }
    if (p.swap && p.recompute) return "a victim is either swapped or recomputed, not both";
    if (p.fork && p.beam) return "a request has either fork or beam, not both";
    out->prefix = p.prefix;
    out->swap = p.swap;
    if (p.fork) out->group = PKV_SIM_GROUP_FORK;
    if (p.beam) out->group = PKV_SIM_GROUP_BEAM;
    if (p.fork || p.beam) out->n_seqs = 4;
    if (p.beam) out->switch_ppm = PPM / 10;
    return NULL;
}

/* ---------------------------------------------------------------- keys */

static bool has_alloc(const pkv_sim_policy *p)
{
    return p->kind == PKV_SIM_MAX || p->kind == PKV_SIM_POW2 || p->kind == PKV_SIM_ORACLE ||
           p->kind == PKV_SIM_STATIC_BATCH;
}

static bool set_alloc(word value, pkv_sim_policy *out)
{
    const pkv__sim_addr_ops *ops;
    for (int addr = 0; (ops = pkv__sim_addr_find((pkv_sim_addr)addr)) != NULL; addr++) {
        if (!is(value, ops->name)) continue;
        out->addr = (pkv_sim_addr)addr;
        return true;
    }
    return false;
}

static bool is_paged(const pkv_sim_policy *p)
{
    return p->kind == PKV_SIM_PAGED;
}

static bool set_block(word value, pkv_sim_policy *out)
{
    return parse_int(value, 1, 1024, &out->block_tokens);
}

static bool has_fork(const pkv_sim_policy *p)
{
    return is_paged(p) && p->group == PKV_SIM_GROUP_FORK;
}

static bool has_beam(const pkv_sim_policy *p)
{
    return is_paged(p) && p->group == PKV_SIM_GROUP_BEAM;
}

static bool set_n_seqs(word value, pkv_sim_policy *out)
{
    return parse_int(value, 1, MAX_SEQS, &out->n_seqs);
}

/* 0 .. 1 with at most six decimals, so that it is exact in ppm. */
static bool set_switch(word value, pkv_sim_policy *out)
{
    word after;
    const word before = split(value, '.', &after);
    int32_t whole, decimals = 0;
    if (!parse_int(before, 0, 1, &whole)) return false;
    if (after.text) {
        if (after.len > 6 || !parse_int(after, 0, PPM - 1, &decimals)) return false;
        for (size_t k = after.len; k < 6; k++) decimals *= 10;
    }
    if (whole == 1 && decimals > 0) return false;
    out->switch_ppm = whole * PPM + decimals;
    return true;
}

static bool is_orca_real(const pkv_sim_policy *p)
{
    return p->kind == PKV_SIM_ORCA_REAL;
}

static bool set_max_tokens(word value, pkv_sim_policy *out)
{
    return parse_int(value, 1, 1 << 30, &out->max_tokens);
}

static bool is_vattn(const pkv_sim_policy *p)
{
    return p->kind == PKV_SIM_VATTN;
}

static const struct named_page {
    const char *name;
    int64_t bytes;
} pages[] = { { "2M", INT64_C(2) << 20 },
              { "256K", INT64_C(256) << 10 },
              { "128K", INT64_C(128) << 10 },
              { "64K", INT64_C(64) << 10 } };

static bool set_page(word value, pkv_sim_policy *out)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(pages); k++) {
        if (!is(value, pages[k].name)) continue;
        out->page_bytes = pages[k].bytes;
        return true;
    }
    return false;
}

static const struct key {
    const char *name;
    bool (*applies)(const pkv_sim_policy *policy);
    bool (*set)(word value, pkv_sim_policy *out);
    const char *owners, *values;
} keys[] = {
    { "alloc", has_alloc, set_alloc, "max, pow2, oracle and static-batch",
      "buddy, ideal, first-fit, best-fit, next-fit or compact" },
    { "block", is_paged, set_block, "paged", "a number of tokens, 1 .. 1024" },
    { "n", has_fork, set_n_seqs, "paged+fork", "a number of sequences, 1 .. 64" },
    { "width", has_beam, set_n_seqs, "paged+beam", "a number of beams, 1 .. 64" },
    { "switch", has_beam, set_switch, "paged+beam",
      "a probability, 0 .. 1 with at most six decimals" },
    { "max_tokens", is_orca_real, set_max_tokens, "orca-real", "a number of slots, 1 .. 2^30" },
    { "page", is_vattn, set_page, "vattn", "2M, 256K, 128K or 64K" },
};

/* The keys of a policy, for messages. */
static const char *keys_of(const pkv_sim_policy *p)
{
    if (has_alloc(p)) return "takes alloc=NAME";
    if (has_fork(p)) return "takes block=N and n=N";
    if (has_beam(p)) return "takes block=N, width=N and switch=P";
    if (is_paged(p)) return "takes block=N";
    return is_vattn(p) ? "takes page=BYTES" : "takes max_tokens=N";
}

/* ---------------------------------------------------------------- reading */

typedef struct reader {
    const char *text; /* whole, for messages */
    const pkv_logger *log;
} reader;

static pkv_status refuse(const reader *in, const char *why)
{
    return pkv__refuse(in->log, PKV_E_INVALID_ARG, "policy '%.60s': %s", in->text, why);
}

/* One key=value, or the bare name of an allocator. */
static pkv_status parse_option(const reader *in, word option, pkv_sim_policy *policy)
{
    word value;
    const word name = split(option, '=', &value);
    if (!value.text && has_alloc(policy) && set_alloc(name, policy)) return PKV_OK;
    for (size_t k = 0; k < PKV_ARRAY_LEN(keys); k++) {
        const struct key *key = &keys[k];
        if (!is(name, key->name)) continue;
        if (!key->applies(policy))
            return pkv__refuse(in->log, PKV_E_INVALID_ARG,
                               "policy '%.60s': %s is for %s; this one %s", in->text, key->name,
                               key->owners, keys_of(policy));
        if (value.text && key->set(value, policy)) return PKV_OK;
        return pkv__refuse(in->log, PKV_E_INVALID_ARG, "policy '%.60s': %s is %s", in->text,
                           key->name, key->values);
    }
    return pkv__refuse(in->log, PKV_E_INVALID_ARG,
                       "policy '%.60s': unknown key '%.*s'; this one %s", in->text,
                       (int)(name.len < 20 ? name.len : 20), name.text, keys_of(policy));
}

pkv_status pkv_sim_policy_parse(const char *text, const pkv_logger *log, pkv_sim_policy *out)
{
    if (!text || !out) return PKV_E_INVALID_ARG;
    const reader in = { text, log };
    pkv_sim_policy policy;
    word parts_text, options;
    const word head = split((word){ text, strlen(text) }, ':', &options);
    const word name = split(head, '+', &parts_text);
    if (!parse_kind(name, &policy))
        return refuse(&in, "unknown name; known are max, pow2, oracle, static-batch, orca-real, "
                           "paged and vattn");
    if (parts_text.text && !is_paged(&policy))
        return refuse(&in, "only paged takes parts behind a +");
    const char *why = parse_parts(parts_text, &policy);
    if (why) return refuse(&in, why);
    while (options.text) {
        const word option = split(options, ',', &options);
        const pkv_status status = parse_option(&in, option, &policy);
        if (status != PKV_OK) return status;
    }
    *out = policy;
    return PKV_OK;
}

/* ---------------------------------------------------------------- writing */

/* As short as it reads back: 0.1, not 0.100000. */
static void write_ppm(int32_t ppm, char text[16])
{
    int len = snprintf(text, 16, "%d.%06d", ppm / PPM, ppm % PPM);
    while (text[len - 1] == '0') text[--len] = '\0';
    if (text[len - 1] == '.') text[len - 1] = '\0';
}

static void write_paged(const pkv_sim_policy *p, char name[PKV_SIM_POLICY_NAME_BYTES])
{
    static const char *const groups[] = { "", "+fork", "+beam" };
    const size_t cap = PKV_SIM_POLICY_NAME_BYTES;
    const unsigned group = (unsigned)p->group < PKV_ARRAY_LEN(groups) ? (unsigned)p->group : 0;
    int len = snprintf(name, cap, "paged%s%s%s:block=%d", p->prefix ? "+prefix" : "",
                       p->swap ? "+swap" : "", groups[group], p->block_tokens);
    const size_t left = cap - (size_t)len;
    if (group == PKV_SIM_GROUP_FORK) snprintf(name + len, left, ",n=%d", p->n_seqs);
    if (group == PKV_SIM_GROUP_BEAM) {
        char probability[16];
        write_ppm(p->switch_ppm, probability);
        snprintf(name + len, left, ",width=%d,switch=%s", p->n_seqs, probability);
    }
}

static const char *page_name(int64_t bytes)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(pages); k++)
        if (pages[k].bytes == bytes) return pages[k].name;
    return "?";
}

void pkv_sim_policy_name(const pkv_sim_policy *policy, char name[PKV_SIM_POLICY_NAME_BYTES])
{
    const size_t cap = PKV_SIM_POLICY_NAME_BYTES;
    const char *kind = name_of(policy->kind);
    const pkv__sim_addr_ops *addr = pkv__sim_addr_find(policy->addr);
    if (!kind || !addr) snprintf(name, cap, "?");
    else if (is_paged(policy)) write_paged(policy, name);
    else if (is_vattn(policy))
        snprintf(name, cap, "%s:page=%s", kind, page_name(policy->page_bytes));
    else if (is_orca_real(policy) && policy->max_tokens > 0)
        snprintf(name, cap, "%s:max_tokens=%d", kind, policy->max_tokens);
    else if (has_alloc(policy) && policy->addr != PKV_SIM_ADDR_BUDDY)
        snprintf(name, cap, "%s:alloc=%s", kind, addr->name);
    else snprintf(name, cap, "%s", kind);
}
