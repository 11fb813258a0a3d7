/* Policies as text: NAME[:key=value,...]. */
#include "sim/sim_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct word {
    const char *text;
    size_t len;
} word;

static bool is(word w, const char *text)
{
    return strlen(text) == w.len && memcmp(w.text, text, w.len) == 0;
}

/* Everything up to one of `ends`; *rest is what follows it, NULL at the end of the text. */
static word split(const char *text, const char *ends, const char **rest)
{
    const size_t len = strcspn(text, ends);
    *rest = text[len] ? text + len + 1 : NULL;
    return (word){ text, len };
}

static bool parse_name(word name, pkv_sim_policy *out)
{
    static const struct {
        const char *name;
        pkv_sim_kind kind;
    } known[] = {
        { "max", PKV_SIM_MAX },
        { "pow2", PKV_SIM_POW2 },
        { "oracle", PKV_SIM_ORACLE },
        { "paged", PKV_SIM_PAGED },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(known); k++) {
        if (!is(name, known[k].name)) continue;
        *out = (pkv_sim_policy)PKV_SIM_POLICY_INIT;
        out->kind = known[k].kind;
        if (out->kind != PKV_SIM_PAGED) out->block_tokens = 0;
        return true;
    }
    return false;
}

static bool parse_alloc(word value, pkv_sim_policy *out)
{
    const pkv__sim_addr_ops *ops;
    for (int addr = 0; (ops = pkv__sim_addr_find((pkv_sim_addr)addr)) != NULL; addr++) {
        if (!is(value, ops->name)) continue;
        out->addr = (pkv_sim_addr)addr;
        return true;
    }
    return false;
}

static bool parse_block(word value, pkv_sim_policy *out)
{
    int32_t n = 0;
    if (value.len == 0 || value.len > 4) return false;
    for (size_t k = 0; k < value.len; k++) {
        if (value.text[k] < '0' || value.text[k] > '9') return false;
        n = 10 * n + (value.text[k] - '0');
    }
    if (n < 1 || n > 1024) return false;
    out->block_tokens = n;
    return true;
}

pkv_status pkv_sim_policy_parse(const char *text, const pkv_logger *log, pkv_sim_policy *out)
{
    if (!text || !out) return PKV_E_INVALID_ARG;
    pkv_sim_policy policy;
    const char *rest;
    const word name = split(text, ":", &rest);
    if (!parse_name(name, &policy))
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "policy '%.40s': unknown name; known are max, pow2, oracle and paged",
                           text);
    const bool paged = policy.kind == PKV_SIM_PAGED;
    while (rest) {
        const char *value_text;
        const char *option = rest;
        const word whole = split(option, ",", &rest);
        const word key = split(option, "=,", &value_text);
        const word value = { option + key.len + 1,
                             key.len < whole.len ? whole.len - key.len - 1 : 0 };
        if (!paged && key.len == whole.len && parse_alloc(key, &policy))
            continue; /* oracle:ideal */
        if (!paged && is(key, "alloc")) {
            if (parse_alloc(value, &policy)) continue;
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "policy '%.40s': alloc is buddy, ideal, first-fit or best-fit",
                               text);
        }
        if (paged && is(key, "block")) {
            if (parse_block(value, &policy)) continue;
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "policy '%.40s': block is a number of tokens, 1 .. 1024", text);
        }
        return pkv__refuse(log, PKV_E_INVALID_ARG, "policy '%.40s': %s", text,
                           paged ? "paged takes block=N" : "this one takes alloc=NAME");
    }
    *out = policy;
    return PKV_OK;
}

void pkv_sim_policy_name(const pkv_sim_policy *policy, char name[PKV_SIM_POLICY_NAME_BYTES])
{
    const size_t cap = PKV_SIM_POLICY_NAME_BYTES;
    static const char *const contiguous[] = { "max", "pow2", "oracle" };
    if (policy->kind == PKV_SIM_PAGED) {
        snprintf(name, cap, "paged:block=%d", policy->block_tokens);
        return;
    }
    const pkv__sim_addr_ops *addr = pkv__sim_addr_find(policy->addr);
    if ((unsigned)policy->kind >= PKV_ARRAY_LEN(contiguous) || !addr) snprintf(name, cap, "?");
    else if (policy->addr == PKV_SIM_ADDR_BUDDY)
        snprintf(name, cap, "%s", contiguous[policy->kind]);
    else snprintf(name, cap, "%s:alloc=%s", contiguous[policy->kind], addr->name);
}
