/* Dates as text. */
#include "sim/trace.h"

#define NS_PER_S INT64_C(1000000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Two digits; negative: they are none. */
static int two_digits(const char *at)
{
    if (!is_digit(at[0]) || !is_digit(at[1])) return -1;
    return 10 * (at[0] - '0') + (at[1] - '0');
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
    int n = 0;
    for (; text->len > 0 && is_digit(*text->at); n++) {
        if (n == 9) return false;
        *ns = 10 * *ns + (*text->at - '0');
        text->at++;
        text->len--;
    }
    for (int k = n; k < 9; k++) *ns *= 10;
    return n > 0;
}

/* Z, +HH:MM, -HHMM or nothing. */
static bool take_zone(pkv__text *text, bool *zoned, int *minutes_east)
{
    *minutes_east = 0;
    *zoned = text->len > 0;
    if (!*zoned || take_char(text, 'Z')) return true;
    const bool west = *text->at == '-';
    if (!take_char(text, '+') && !take_char(text, '-')) return false;
    const bool colon = text->len == 5 && text->at[2] == ':';
    if (!colon && text->len != 4) return false;
    const int hours = two_digits(text->at), minutes = two_digits(text->at + 2 + colon);
    if ((hours | minutes) < 0 || hours > 23 || minutes > 59) return false;
    text->len = 0;
    *minutes_east = (west ? -1 : 1) * (60 * hours + minutes);
    return true;
}

bool pkv__trace_date(pkv__text text, pkv__i128 *ns, bool *zoned)
{
    const char *at = text.at;
    if (text.len < 19 || at[4] != '-' || at[7] != '-' || (at[10] != ' ' && at[10] != 'T') ||
        at[13] != ':' || at[16] != ':')
        return false;
    const int century = two_digits(at), of_century = two_digits(at + 2);
    const int month = two_digits(at + 5), day = two_digits(at + 8), hour = two_digits(at + 11);
    const int minute = two_digits(at + 14), second = two_digits(at + 17);
    if ((century | of_century | month | day | hour | minute | second) < 0) return false;
    const int year = 100 * century + of_century;
    if (year < 1900 || year > 2199 || month < 1 || month > 12 || day < 1 ||
        day > days_in(year, month) || hour > 23 || minute > 59 || second > 59)
        return false;
    pkv__text rest = { at + 19, text.len - 19 };
    int64_t fraction;
    int east;
    if (!take_fraction(&rest, &fraction) || !take_zone(&rest, zoned, &east) || rest.len > 0)
        return false;
    const int64_t days = days_since_2000(year, month, day);
    const int64_t seconds = ((days * 24 + hour) * 60 + minute - east) * 60 + second;
    *ns = (pkv__i128)seconds * NS_PER_S + fraction;
    return true;
}
