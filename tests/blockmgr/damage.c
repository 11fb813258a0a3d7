/* See damage.h. */
#include "damage.h"

static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    (void)snprintf(ctx, 256, "%s", text);
}

void damage_all(const pkv_blockmgr_config *cfg, void (*build)(fx *f), const struct damage *damages,
                size_t n)
{
    char line[256] = "";
    int blind = 0;
    pkv_blockmgr_config logged = *cfg;
    logged.log = (pkv_logger){ keep_line, line };
    fx *f = fx_from(&logged);
    const size_t bytes = pkv_blockmgr_bytes(cfg);
    build(f);
    pkv_blockmgr *copy = aligned_alloc(64, bytes);
    assert_non_null(copy);
    for (size_t i = 0; i < n; i++) {
        for (int level = 1; level <= 3; level++) {
            memcpy(copy, f->m, bytes);
            assert_ok(pkv_blockmgr_check(copy, 3));
            damages[i].damage(copy);
            *line = 0;
            pkv_status st = pkv_blockmgr_check(copy, level);
            bool named = strstr(line, damages[i].invariant) != NULL;
            if (level < damages[i].level ? st == PKV_OK : st == PKV_E_CORRUPT && named) continue;
            print_error("%s at level %d: %s, \"%s\"; expected %s from level %d on\n",
                        damages[i].name, level, pkv_status_name(st), line, damages[i].invariant,
                        damages[i].level);
            blind++;
        }
    }
    free(copy);
    fx_end(f);
    assert_int_equal(blind, 0);
}
