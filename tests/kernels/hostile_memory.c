/* Memory that answers back. */
#include "hostile_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#endif

enum { PAGE = 4096, CANARY = 0xa5 };

struct hostile hostile_create(size_t bytes, unsigned char fill)
{
    struct hostile m = { .bytes = bytes };
    const size_t body = (bytes + PAGE - 1) / PAGE * PAGE;
    m.map_bytes = body + PAGE;
    m.map = mmap(NULL, m.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m.map == MAP_FAILED || mprotect(m.map + body, PAGE, PROT_NONE) != 0) {
        fprintf(stderr, "no memory for a buffer of %zu bytes\n", bytes);
        exit(2);
    }
    m.data = m.map + body - bytes;
    memset(m.map, CANARY, body - bytes);
    memset(m.data, fill, bytes);
    return m;
}

void hostile_destroy(struct hostile *m)
{
    hostile_allow(m->map, m->map_bytes);
    if (m->map) munmap(m->map, m->map_bytes);
    *m = (struct hostile){ 0 };
}

void hostile_lock(struct hostile *m)
{
    if (m->map_bytes > PAGE) mprotect(m->map, m->map_bytes - PAGE, PROT_READ);
}

void hostile_forbid(void *data, size_t bytes)
{
    ASAN_POISON_MEMORY_REGION(data, bytes);
}

void hostile_allow(void *data, size_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
}

bool hostile_intact(const struct hostile *m)
{
    for (const unsigned char *p = m->map; p < m->data; p++)
        if (*p != CANARY) return false;
    return true;
}

void *sparse_create(size_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

void sparse_destroy(void *data, size_t bytes)
{
    if (data) munmap(data, bytes);
}
