/* The way to the caller's log callback. */
#include "common/common.h"

#include <stdio.h>

static void log_va(const pkv_logger *log, pkv_log_level level, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

static void log_va(const pkv_logger *log, pkv_log_level level, const char *fmt, va_list args)
{
    char text[256];
    if (!log || !log->fn) return;
    vsnprintf(text, sizeof text, fmt, args);
    /* One line, whatever was quoted: names in files may hold line ends and escape sequences. */
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    log->fn(log->ctx, level, text);
}

void pkv__log(const pkv_logger *log, pkv_log_level level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    log_va(log, level, fmt, args);
    va_end(args);
}

pkv_status pkv__refuse(const pkv_logger *log, pkv_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    log_va(log, PKV_LOG_ERROR, fmt, args);
    va_end(args);
    return status;
}
