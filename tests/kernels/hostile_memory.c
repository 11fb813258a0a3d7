/* Memory that answers back. */
#include "hostile_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Of whatever this program is linked with: AddressSanitizer, though these files may be compiled
 * without it; an emulated device, which has to know what kernels may touch. */
#pragma weak __asan_poison_memory_region
#pragma weak __asan_unpoison_memory_region
#pragma weak device_register
#pragma weak device_unregister
void __asan_poison_memory_region(void const volatile *data, size_t bytes);
void __asan_unpoison_memory_region(void const volatile *data, size_t bytes);
void device_register(void *data, size_t bytes);
void device_unregister(void *data);

enum { PAGE = 4096, CANARY = 0xa5 };

/* Maps that are in use. */
struct live {
    void *map, *lent;
    size_t bytes;
    bool sparse; /* nothing in it is forbidden, and its shadow would be gigabytes */
};
static struct live *lives;
static size_t n_lives, cap_lives;

static void keep(struct live m)
{
    if (n_lives == cap_lives) {
        cap_lives = 2 * cap_lives + 64;
        lives = realloc(lives, cap_lives * sizeof(*lives));
        if (!lives) exit(2);
    }
    lives[n_lives++] = m;
}

static void give_back(void *map)
{
    size_t i = n_lives;
    while (i-- > 0 && lives[i].map != map) continue;
    const struct live m = lives[i];
    lives[i] = lives[--n_lives];
    hostile_unlend(m.lent);
    if (!m.sparse) hostile_allow(m.map, m.bytes);
    munmap(m.map, m.bytes);
}

void hostile_lend(void *data, size_t bytes)
{
    if (device_register && bytes > 0) device_register(data, bytes);
}

void hostile_unlend(void *data)
{
    if (device_unregister) device_unregister(data);
}

void hostile_release_all(void)
{
    while (n_lives > 0) give_back(lives[n_lives - 1].map);
}

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
    hostile_lend(m.data, bytes);
    keep((struct live){ m.map, m.data, m.map_bytes, false });
    return m;
}

void hostile_destroy(struct hostile *m)
{
    if (m->map) give_back(m->map);
    *m = (struct hostile){ 0 };
}

void hostile_lock(struct hostile *m)
{
    if (m->map_bytes > PAGE) mprotect(m->map, m->map_bytes - PAGE, PROT_READ);
}

void hostile_forbid(void *data, size_t bytes)
{
    if (__asan_poison_memory_region) __asan_poison_memory_region(data, bytes);
}

void hostile_allow(void *data, size_t bytes)
{
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(data, bytes);
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
    if (data == MAP_FAILED) return NULL;
    hostile_lend(data, bytes);
    keep((struct live){ data, data, bytes, true });
    return data;
}

void sparse_destroy(void *data, size_t bytes)
{
    (void)bytes;
    if (data) give_back(data);
}
