/* Decimal numbers as text, exactly and without the locale's help. */
#include "sim/trace.h"

#define MAX_DIGITS 30 /* 10^30 * 10 fits 128 bits */
#define MAX_EXPONENT 100
#define MAX_POWER 38 /* 10^38 fits 128 bits */

/* value = digits * 10^exponent; `cut`: digits other than 0 were dropped behind. */
typedef struct decimal {
    pkv__i128 digits;
    int exponent;
    bool cut;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* [+-]digits behind an e. */
static bool read_exponent(pkv__text text, size_t k, int *exponent)
{
    bool negative = false;
    if (k < text.len && (text.at[k] == '+' || text.at[k] == '-')) negative = text.at[k++] == '-';
    if (k == text.len) return false;
    int value = 0;
    for (; k < text.len; k++) {
        if (!is_digit(text.at[k])) return false;
        if (value < MAX_EXPONENT) value = 10 * value + (text.at[k] - '0');
    }
    *exponent += negative ? -value : value;
    return true;
}

/* Not negative; -0 is 0. */
static bool read_decimal(pkv__text text, decimal *out)
{
    *out = (decimal){ 0 };
    int n_kept = 0;
    bool any = false, point = false;
    const bool minus = text.len > 0 && *text.at == '-';
    size_t k = minus;
    for (; k < text.len; k++) {
        const char c = text.at[k];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(c)) break;
        any = true;
        if (n_kept < MAX_DIGITS) {
            out->digits = 10 * out->digits + (c - '0');
            if (out->digits > 0) n_kept++;
            out->exponent -= point;
        } else {
            if (c != '0') out->cut = true;
            out->exponent += !point;
        }
    }
    if (!any || (minus && out->digits != 0)) return false;
    if (k == text.len) return true;
    return (text.at[k] == 'e' || text.at[k] == 'E') && read_exponent(text, k + 1, &out->exponent);
}

/* The usual case: 1 to 9 digits and nothing else. */
static bool plain_digits(pkv__text text, int32_t *out)
{
    if (text.len < 1 || text.len > 9) return false;
    int32_t value = 0;
    for (size_t k = 0; k < text.len; k++) {
        if (!is_digit(text.at[k])) return false;
        value = 10 * value + (text.at[k] - '0');
    }
    *out = value;
    return true;
}

bool pkv__trace_tokens(pkv__text text, int32_t *out, pkv_sim_drop *drop)
{
    decimal d;
    if (plain_digits(text, out)) return true;
    *drop = PKV_SIM_DROP_BAD_NUMBER;
    if (!read_decimal(text, &d)) return false;
    if (d.cut && d.exponent > 0) {
        *drop = PKV_SIM_DROP_OVERFLOW;
        return false;
    }
    if (d.cut) return false;
    for (; d.exponent < 0 && d.digits != 0; d.exponent++) {
        if (d.digits % 10 != 0) return false;
        d.digits /= 10;
    }
    *drop = PKV_SIM_DROP_OVERFLOW;
    for (; d.exponent > 0 && d.digits != 0; d.exponent--) {
        if (d.digits > INT32_MAX) return false;
        d.digits *= 10;
    }
    if (d.digits > INT32_MAX) return false;
    *out = (int32_t)d.digits;
    return true;
}

/* 10^k for 0 <= k <= MAX_POWER. */
static pkv__i128 power_of_10(int k)
{
    pkv__i128 p = 1;
    while (k-- > 0) p *= 10;
    return p;
}

bool pkv__trace_ns(pkv__text text, int64_t unit_ns, pkv__i128 *ns)
{
    decimal d;
    if (!read_decimal(text, &d)) return false;
    for (; d.exponent < 0 && unit_ns % 10 == 0; d.exponent++) unit_ns /= 10;
    const pkv__i128 limit = (pkv__i128)100000000000000 * 100000000000000; /* 10^28 */
    if (d.exponent == 0 && d.digits <= INT64_MAX) {                       /* the usual case */
        *ns = d.digits * unit_ns;
        return *ns < limit;
    }
    for (; d.exponent < -MAX_POWER && d.digits != 0; d.exponent++) d.digits /= 10;
    for (; d.exponent > 0 && d.digits != 0; d.exponent--) {
        if (d.digits >= limit) return false;
        d.digits *= 10;
    }
    pkv__i128 whole = d.digits, part = 0;
    int n_digits = d.exponent < 0 && d.digits != 0 ? -d.exponent : 0; /* behind the point */
    if (n_digits > 0) {
        whole = d.digits / power_of_10(n_digits);
        part = d.digits % power_of_10(n_digits);
    }
    /* part * unit_ns has to fit; what is cut is less than 10^-19 of a unit */
    for (; n_digits > 19; n_digits--) part /= 10;
    if (whole >= limit / unit_ns) return false;
    *ns = whole * unit_ns;
    if (part > 0) *ns += part * unit_ns / power_of_10(n_digits);
    return true;
}
