/* `pkv-bench model` as a user runs it, at a size at which all of its cases run: every side tells
 * the right tokens, whatever its time. The program is $PKV_BENCH, the schema $PKV_BENCH_SCHEMA. */
#include "json_schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static json_t *run_model(void)
{
    char path[] = "/tmp/pkv_bench_model_XXXXXX", command[1024];
    const int fd = mkstemp(path);
    json_error_t error;
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof(command),
             "'%s' model --profile ci --threads 2 --json %s > /dev/null < /dev/null",
             getenv("PKV_BENCH"), path);
    const int status = system(command);
    json_t *root = json_load_file(path, 0, &error);
    unlink(path);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!root) fail_msg("%s", error.text);
    return root;
}

static void check_schema(const json_t *root)
{
    char why[512];
    json_error_t error;
    json_t *schema = json_load_file(getenv("PKV_BENCH_SCHEMA"), 0, &error);
    assert_non_null(schema);
    if (!json_schema_check(schema, root, "$", why, sizeof(why))) fail_msg("%s", why);
    json_decref(schema);
}

static void all_rows(void **state)
{
    (void)state;
    json_t *root = run_model();
    const json_t *row;
    size_t i, n_timed = 0, n_serving = 0;
    check_schema(root);
    json_array_foreach(json_object_get(root, "cases"), i, row)
    {
        const bool timed = strcmp(json_string_value(json_object_get(row, "level")), "model") == 0;
        n_timed += timed;
        n_serving += !timed;
        assert_int_equal(json_is_object(json_object_get(row, "stats")), timed);
        assert_int_equal(json_array_size(json_object_get(row, "goals")), 0);
    }
    assert_int_equal(n_serving, 12);
    assert_true(n_timed >= 22);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
