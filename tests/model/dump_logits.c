/* Logits of every token of a text, for test_llama_oracle.py: one pass through a store with shuffled
 * blocks. Writes float32 in the machine's order, [tokens][vocab].
 *
 * usage: dump_logits OUT PATH ID... */
#include "forward_rig.h"

typedef struct arguments {
    const char *out, *path;
    char **ids;
    int n_ids;
} arguments;

static void dump(void **state)
{
    const arguments *args = *state;
    int32_t ids[MAX_BATCH];
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv__model_config c;
    pkv__weights w;
    rig r;
    const int32_t n = args->n_ids;
    for (int32_t i = 0; i < n; i++) ids[i] = (int32_t)strtol(args->ids[i], NULL, 10);
    pkv__tensor_file *file = open_good(args->path);
    pkv_status status = pkv__model_config_read(args->path, file, &logger, NULL, &c);
    if (status == PKV_OK) status = pkv__weights_load(&c, file, PKV_F32, &logger, NULL, &w);
    if (status != PKV_OK) fail_msg("%s: %s", args->path, log.text);
    float *logits = malloc((size_t)n * (size_t)c.vocab * sizeof(*logits));
    assert_non_null(logits);
    rig_make(&r, &w, &(rig_options){ PKV_ISA_BEST, 1, 16, PKV_F32, 1, false }, n);
    rig_run(&r, ids, n, n, logits);
    FILE *out = fopen(args->out, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(logits, sizeof(*logits) * (size_t)c.vocab, (size_t)n, out), n);
    assert_int_equal(fclose(out), 0);
    rig_drop(&r);
    pkv__weights_free(&w);
    free(logits);
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc - 3 > MAX_BATCH) return 2;
    arguments args = { argv[1], argv[2], argv + 3, argc - 3 };
    const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(dump, &args) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
