/* Dates as text. */
#include "sim/trace.h"

#define NS_PER_S INT64_C(1000000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Take exactly n digits. */
static bool take_digits(pkv__text *text, int n, int *out)
{
    if (text->len < (size_t)n) return false;
    int value = 0;
    for (int k = 0; k < n; k++) {
        if (!is_digit(text->at[k])) return false;
        value = 10 * value + (text->at[k] - '0');
    }
    text->at += n;
    text->len -= (size_t)n;
    *out = value;
    return true;
}

static bool take_char(pkv__text *text, char c)
{
    if (text->len == 0 || *text->at != c) return false;
    text->at++;
    text->len--;
    return true;
}

/* Days from 2000-01-01 in the Gregorian calendar; years from 1600 on. */
static int64_t days_since_2000(int year, int month, int day)
{
    static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int64_t y = year - 1600; /* 1600 and 2000 begin a cycle of 400 years, 146,097 days */
    const int64_t leap_days = (y + 3) / 4 - (y + 99) / 100 + (y + 399) / 400;
    return 365 * y + leap_days + before[month - 1] + (leap && month > 2) + day - 1 - 146097;
}

static int days_in(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (leap && month == 2);
}

/* .f with 1 to 9 digits, or nothing. */
static bool take_fraction(pkv__text *text, int64_t *ns)
{
    *ns = 0;
    if (!take_char(text, '.')) return true;
    int64_t unit = NS_PER_S;
    while (text->len > 0 && is_digit(*text->at)) {
        unit /= 10;
        if (unit == 0) return false;
        *ns += unit * (*text->at - '0');
        text->at++;
        text->len--;
    }
    return unit < NS_PER_S;
}

/* Z, +HH:MM, -HHMM or nothing. */
static bool take_zone(pkv__text *text, bool *zoned, int *minutes_east)
{
    *minutes_east = 0;
    *zoned = text->len > 0;
    if (!*zoned || take_char(text, 'Z')) return true;
    const bool west = *text->at == '-';
    if (!take_char(text, '+') && !take_char(text, '-')) return false;
    int hours, minutes;
    if (!take_digits(text, 2, &hours)) return false;
    take_char(text, ':');
    if (!take_digits(text, 2, &minutes) || hours > 23 || minutes > 59) return false;
    *minutes_east = (west ? -1 : 1) * (60 * hours + minutes);
    return true;
}

bool pkv__trace_date(pkv__text text, pkv__i128 *ns, bool *zoned)
{
    int year, month, day, hour, minute, second, east;
    int64_t fraction;
    if (!take_digits(&text, 4, &year) || !take_char(&text, '-') || !take_digits(&text, 2, &month) ||
        !take_char(&text, '-') || !take_digits(&text, 2, &day))
        return false;
    if (!take_char(&text, ' ') && !take_char(&text, 'T')) return false;
    if (!take_digits(&text, 2, &hour) || !take_char(&text, ':') ||
        !take_digits(&text, 2, &minute) || !take_char(&text, ':') ||
        !take_digits(&text, 2, &second) || !take_fraction(&text, &fraction) ||
        !take_zone(&text, zoned, &east) || text.len > 0)
        return false;
    if (year < 1900 || year > 2199 || month < 1 || month > 12 || day < 1 ||
        day > days_in(year, month) || hour > 23 || minute > 59 || second > 59)
        return false;
    const int64_t days = days_since_2000(year, month, day);
    const int64_t seconds = ((days * 24 + hour) * 60 + minute - east) * 60 + second;
    *ns = (pkv__i128)seconds * NS_PER_S + fraction;
    return true;
}
