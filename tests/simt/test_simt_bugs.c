/* Planted bugs: what each build says about them, and that it says nothing about their clean twins.
 *
 *                plain         asan                      race
 *   machine      its report    its report                its report    threads that do not meet,
 * ... asan         as in plain   the program ends          -             bounds, alignment race as
 * in plain   as in plain               its report    order of memory
 *
 * "As in plain" is one of: right all the same (the bug is missed), or wrong in some schedule. */
#include "simt_test.h"

#include "simt/bug_kernels.h"

#include <sys/wait.h>
#include <unistd.h>

enum without_report {
    MISSED,  /* right in all schedules */
    DIFFERS, /* wrong in some */
    NOT_RUN  /* would harm the test */
};

struct bug {
    const char *name;
    int (*run)(int fixed, float *out, const float *in);
    enum without_report plain;
    const char *machine; /* report of every build, or NULL */
    const char *asan;    /* report with which the program ends, or "fail: " and the launch's */
    const char *race;
    const char *place; /* comment in bug_kernels.cu to which the report points; NULL: name */
};

#define B(name) #name, bug_##name
#define CONFLICT "conflict with block 0"

static const struct bug bugs[] = {
    { B(no_sync_before_merge), DIFFERS, NULL, NULL, "uninitialised shared memory", NULL },
    { B(no_sync_at_loop_end), DIFFERS, NULL, NULL, "target of thread 0's cp.async at", NULL },
    { B(no_sync_before_reuse), DIFFERS, NULL, NULL, "write after read", NULL },
    { B(lax_wait), DIFFERS, NULL, NULL, "before its wait_group", NULL },
    { B(sync_before_wait), MISSED, NULL, NULL, "read after write", NULL },
    { B(no_syncwarp), DIFFERS, NULL, NULL, "uninitialised shared memory", NULL },
    { B(shuffle_as_sync), MISSED, NULL, NULL, "read after write", NULL },
    { B(partial_syncwarp), MISSED, NULL, NULL, "read after write", NULL },
    { B(uninitialised), DIFFERS, NULL, NULL, "uninitialised shared memory", NULL },
    { B(static_bounds), NOT_RUN, NULL, "index 32 out of bounds", "outside of every buffer", NULL },
    { B(dynamic_bounds), NOT_RUN, NULL, "heap-buffer-overflow", "outside of every buffer", NULL },
    { B(global_bounds), NOT_RUN, NULL, "heap-buffer-overflow", "outside of every buffer", NULL },
    { B(copy_bounds), NOT_RUN, NULL, "fail: source is out of bounds", "outside of every buffer",
      NULL },
    { B(foreign_stack), MISSED, NULL, NULL, "outside of every buffer", NULL },
    { B(misaligned_ldv), NOT_RUN, "misaligned access: 16 bytes", NULL, NULL, NULL },
    { B(misaligned_pun), NOT_RUN, NULL, "misaligned address", NULL, NULL },
    { B(divergent_shuffle), MISSED, "20 threads, first 0: shuffle, mask ffffffff", NULL, NULL,
      NULL },
    { B(two_shuffles), MISSED,
      "divergent collective: this lane is at shuffle, lane 0 at shuffle in "
      "bug_kernels.cu",
      NULL, NULL, NULL },
    { B(exited_lane), MISSED, "names lane 5, which has exited", NULL, NULL, NULL },
    { B(not_in_mask), MISSED, "not in its mask ffff0000", NULL, NULL, NULL },
    { B(overlapping_masks), MISSED, "overlaps shuffle, mask 8000ffff", NULL, NULL, NULL },
    { B(source_not_in_mask), MISSED, "reads lane 20, which is not in mask 0000ffff", NULL, NULL,
      NULL },
    { B(two_barriers), MISSED, "divergent barrier: 32 threads wait at the one in", NULL, NULL,
      NULL },
    { B(exit_past_barrier), MISSED, "exits while 32 threads wait at this barrier", NULL, NULL,
      NULL },
    { B(skipped_barrier), MISSED, "16 threads, first 0: syncthreads", NULL, NULL, NULL },
    { B(exit_with_copies), MISSED, "exits with 1 cp.async under way", NULL, NULL, NULL },
    { B(copy_misaligned), MISSED, "the source is not aligned to 16 bytes", NULL, NULL, NULL },
    { B(copy_to_global), MISSED, "destination is outside of shared memory", NULL, NULL, NULL },
    { B(ldmatrix_outside), MISSED, "row is outside of shared memory", NULL, NULL, NULL },
    { B(ldmatrix_too_early), MISSED, NULL, NULL, "read after write", NULL },
    { B(two_blocks_write), MISSED, NULL, NULL, CONFLICT, NULL },
    { B(block_reads_block), DIFFERS, NULL, NULL, CONFLICT, NULL },
    { B(relaxed_arrival), MISSED, NULL, NULL, CONFLICT, "arrive_and_sum" },
    { B(arrival_before_sync), MISSED, NULL, NULL, CONFLICT, "arrive_and_sum" },
    { B(write_after_arrival), MISSED, NULL, NULL, CONFLICT, NULL },
    { B(shuffle_after_arrival), MISSED, NULL, NULL, CONFLICT, NULL },
    { B(global_race), DIFFERS, NULL, NULL, "write after read", NULL },
};
enum { N_BUGS = sizeof bugs / sizeof bugs[0] };

/* "bug_kernels.cu:LINE" */
static const char *place_of(const char *name, char text[64])
{
    snprintf(text, 64, "bug_kernels.cu:%d", line_of(SIMT_SOURCES "/bug_kernels.cu", name));
    return text;
}

struct outcome {
    int status;
    float out[N_BUG_OUT];
};

static struct outcome run(const struct bug *bug, int fixed, int schedule)
{
    float in[N_BUG_IN], zeros[N_BUG_OUT] = { 0 };
    struct outcome o;
    for (int i = 0; i < N_BUG_IN; i++) in[i] = (float)(i % 7 + 1);
    float *d_in = device_copy_of(in, sizeof in), *d_out = device_copy_of(zeros, sizeof zeros);
    use_schedule(schedule);
    o.status = bug->run(fixed, d_out, d_in);
    device_download(o.out, d_out, sizeof o.out);
    device_free(d_in);
    device_free(d_out);
    return o;
}

static void twin_is_clean(void **state)
{
    const struct bug *bug = *state;
    const struct outcome first = run(bug, 1, 0);
    assert_launched(first.status);
    for (int s = 1; s < DEVICE_N_SCHEDULES; s++) {
        const struct outcome o = run(bug, 1, s);
        assert_launched(o.status);
        assert_memory_equal(o.out, first.out, sizeof o.out);
    }
}

/* Every schedule is reported; the first one's report says what and where. */
static void reports(const struct bug *bug, const char *text)
{
    char place[64];
    for (int s = DEVICE_N_SCHEDULES - 1; s >= 0; s--) {
        const struct outcome o = run(bug, 0, s);
        if (o.status != 1) fail_msg("schedule %d passed", s);
    }
    assert_has(device_last_error(), text);
    assert_has(device_last_error(), place_of(bug->place ? bug->place : bug->name, place));
}

/* In a child, which ends with a report on its standard error. */
static void ends_the_program(const struct bug *bug)
{
    char text[1 << 14], place[64];
    int pipes[2], status;
    size_t n = 0;
    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[1], 2);
        run(bug, 0, 0);
        _exit(0);
    }
    close(pipes[1]);
    for (ssize_t got; (got = read(pipes[0], text + n, sizeof text - 1 - n)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    assert_has(text, bug->asan);
#ifndef __clang__ /* whose reports need a program to find lines, which may be missing */
    assert_has(text, place_of(bug->name, place));
#else
    (void)place;
#endif
}

static void is_missed_or_differs(const struct bug *bug)
{
    const struct outcome right = run(bug, 1, 0);
    int n_wrong = 0;
    for (int s = 0; s < DEVICE_N_SCHEDULES; s++) {
        const struct outcome o = run(bug, 0, s);
        assert_launched(o.status);
        n_wrong += memcmp(o.out, right.out, sizeof o.out) != 0;
    }
    if (bug->plain == MISSED) assert_int_equal(n_wrong, 0);
    if (bug->plain == DIFFERS) assert_true(n_wrong > 0);
}

/* The report that this build should end the bug with, or NULL. */
static const char *expected_report(const struct bug *bug)
{
    if (bug->machine) return bug->machine;
    if (strcmp(device_build(), "ptx") == 0 && bug->run == bug_misaligned_pun)
        return "misaligned access: 16 bytes"; /* every load there is one of the machine */
    if (is_watched()) return bug->race;
    if (strcmp(device_build(), "asan") == 0) return bug->asan;
    return NULL;
}

static void bug_is_found(void **state)
{
    const struct bug *bug = *state;
    const char *report = expected_report(bug);
    if (!report) is_missed_or_differs(bug);
    else if (strncmp(report, "fail: ", 6) == 0) reports(bug, report + 6);
    else if (report == bug->asan) ends_the_program(bug);
    else reports(bug, report);
}

static void deadlocks_are_told_by_group(void **state)
{
    (void)state;
    char expected[256], place[64];
    for (int i = 0; i < N_BUGS; i++) {
        const char *groups = "";
        if (strcmp(bugs[i].name, "divergent_shuffle") == 0)
            groups = "block 0: deadlock:\n    20 threads, first 0: shuffle, mask ffffffff, at %s"
                     "\n    12 threads, first 20: exited";
        else if (strcmp(bugs[i].name, "skipped_barrier") == 0)
            groups = "block 0: deadlock:\n    16 threads, first 0: syncthreads, mask ffffffff, at "
                     "bug_kernels.cu:%d\n    16 threads, first 16: syncwarp, mask ffffffff, at %s";
        else continue;
        const char *line = strchr(place_of(bugs[i].name, place), ':') + 1;
        if (strcmp(bugs[i].name, "divergent_shuffle") == 0)
            snprintf(expected, sizeof expected, groups, place);
        else snprintf(expected, sizeof expected, groups, atoi(line) - 1, place);
        assert_int_equal(run(&bugs[i], 0, 0).status, 1);
        assert_string_equal(device_last_error(), expected);
    }
}

/* The other order of exit_past_barrier: the threads have left when the others come. */
static void barrier_after_exits(void **state)
{
    (void)state;
    const struct bug bug = { .name = "exit_past_barrier", .run = bug_exit_past_barrier };
    assert_int_equal(run(&bug, 0, 2).status, 1);
    assert_has(device_last_error(), "divergent barrier: 32 threads have exited");
}

/* A launch after a failed one is as good as any. */
static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    for (int i = 0; i < N_BUGS; i++) {
        if (!bugs[i].machine) continue;
        assert_int_equal(run(&bugs[i], 0, i % DEVICE_N_SCHEDULES).status, 1);
        for (int j = 0; j < N_BUGS; j += 5) assert_launched(run(&bugs[j], 1, i % 12).status);
        assert_string_equal(device_last_error(), "");
    }
}

int main(void)
{
    static char twin_names[N_BUGS][64];
    struct CMUnitTest tests[2 * N_BUGS + 3] = {
        cmocka_unit_test(deadlocks_are_told_by_group),
        cmocka_unit_test(failures_leave_nothing_behind),
        cmocka_unit_test(barrier_after_exits),
    };
    size_t n = 3;
    for (int i = 0; i < N_BUGS; i++) {
        void *state = (void *)(uintptr_t)&bugs[i];
        snprintf(twin_names[i], 64, "%s_twin", bugs[i].name);
        tests[n++] = (struct CMUnitTest){ twin_names[i], twin_is_clean, NULL, NULL, state };
        if (!expected_report(&bugs[i]) && bugs[i].plain == NOT_RUN) continue;
        tests[n++] = (struct CMUnitTest){ bugs[i].name, bug_is_found, NULL, NULL, state };
    }
    return cmocka_run_group_tests(tests, NULL, NULL); /* which passes over what is left empty */
}
