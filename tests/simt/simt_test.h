/* What the tests of the emulator share. */
#ifndef SIMT_TEST_H
#define SIMT_TEST_H

#include "simt/simt_device.h"
#include "simt/simt_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Device memory that a test owns, filled from `from` unless it is NULL. */
static inline void *device_copy_of(const void *from, size_t bytes)
{
    void *p = device_alloc(bytes);
    assert_non_null(p);
    if (from) device_upload(p, from, bytes);
    return p;
}

/* A failed launch shows its reason. */
static inline void assert_launched(int status)
{
    if (status != 0) fail_msg("the launch failed: %s", device_last_error());
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text);
}

/* The line of a kernel file with the comment "here: mark". */
static inline int line_of(const char *path, const char *mark)
{
    char line[512], comment[64];
    int n = 0, found = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    snprintf(comment, sizeof comment, "/* here: %s */", mark);
    while (!found && fgets(line, sizeof line, f)) {
        n++;
        if (strstr(line, comment)) found = n;
    }
    fclose(f);
    if (!found) fail_msg("%s has no comment \"here: %s\"", path, mark);
    return found;
}

/* The builds with a race detector. */
static inline int is_watched(void)
{
    return strcmp(device_build(), "race") == 0 || strcmp(device_build(), "ptx") == 0;
}

static inline void use_schedule(int i)
{
    const device_schedule_t schedule = device_schedule_of(i);
    device_schedule(&schedule);
}

static inline void use_seed(unsigned seed, enum device_block_order blocks)
{
    const device_schedule_t schedule = { seed, 0, blocks };
    device_schedule(&schedule);
}

#endif
