/* Decimal numbers as text, exactly and without the locale's help. */
#include "sim/trace.h"

#define MAX_DIGITS 30 /* 10^30 * 10 fits 128 bits */
#define MAX_EXPONENT 100

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

static bool read_decimal(pkv__text text, decimal *out)
{
    *out = (decimal){ 0 };
    int n_kept = 0;
    bool any = false, point = false;
    size_t k = 0;
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
    if (!any) return false;
    if (k == text.len) return true;
    return (text.at[k] == 'e' || text.at[k] == 'E') && read_exponent(text, k + 1, &out->exponent);
}

bool pkv__trace_tokens(pkv__text text, int32_t *out, pkv_sim_drop *drop)
{
    decimal d;
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

bool pkv__trace_seconds(pkv__text text, pkv__i128 *ns)
{
    decimal d;
    if (!read_decimal(text, &d)) return false;
    d.exponent += 9;
    for (; d.exponent < 0 && d.digits != 0; d.exponent++) d.digits /= 10;
    pkv__i128 limit = 1;
    for (int k = 0; k < 28; k++) limit *= 10;
    for (; d.exponent > 0 && d.digits != 0; d.exponent--) {
        if (d.digits >= limit) return false;
        d.digits *= 10;
    }
    if (d.digits >= limit) return false;
    *ns = d.digits;
    return true;
}
