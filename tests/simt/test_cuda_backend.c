/* The CUDA backend as a handle: how it is made and refused, what it lists, what a failed launch
 * leaves behind. */
#include "cuda_problem.h"
#include "kernels/cuda/cuda_internal.h"
#include "simt_test.h"

/* ------------------------------------------------------------------ what it says, what it takes */

struct said {
    char text[256];
    int n;
};

static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    struct said *s = ctx;
    (void)level;
    s->n++;
    snprintf(s->text, sizeof s->text, "%s", text);
}

static void assert_said(struct said *s, const char *part)
{
    assert_int_equal(s->n, 1);
    assert_has(s->text, part);
    *s = (struct said){ .n = 0 };
}

struct budget {
    int left; /* allocations that succeed */
    int live;
};

static void *take(void *ctx, size_t bytes, size_t align)
{
    struct budget *b = ctx;
    if (b->left-- <= 0) return NULL;
    b->live++;
    return aligned_alloc(align < 64 ? 64 : align, (bytes + 63) / 64 * 64);
}

static void give_back(void *ctx, void *ptr, size_t bytes)
{
    struct budget *b = ctx;
    (void)bytes;
    b->live--;
    free(ptr);
}

/* ------------------------------------------------------------------ making one */

static void refused(const pkv_cuda_config *cfg, pkv_status want)
{
    static char somewhere;
    pkv_backend *be = (pkv_backend *)(void *)&somewhere;
    assert_int_equal(pkv_backend_create_cuda(cfg, &be), want);
    assert_ptr_equal(be, &somewhere);
}

static void configurations(void **state)
{
    (void)state;
    struct said said = { .n = 0 };
    const pkv_cuda_config usual = { .struct_size = sizeof(pkv_cuda_config),
                                    .device = -1,
                                    .log = { keep_line, &said } };
    pkv_cuda_config cfg = usual;
    pkv_backend *be = NULL;
    refused(NULL, PKV_E_INVALID_ARG);
    assert_int_equal(pkv_backend_create_cuda(&cfg, NULL), PKV_E_INVALID_ARG);
    cfg.struct_size--;
    refused(&cfg, PKV_E_ABI);
    assert_int_equal(said.n, 0);
    cfg = usual;
    cfg.device = -2;
    refused(&cfg, PKV_E_INVALID_ARG);
    assert_said(&said, "device -2");
    cfg.device = 1; /* there is one */
    refused(&cfg, PKV_E_UNSUPPORTED);
    assert_said(&said, "invalid device ordinal");
    cfg = usual;
    cfg.max_sms = -1;
    refused(&cfg, PKV_E_INVALID_ARG);
    assert_said(&said, "max_sms -1");
    cfg = usual;
    cfg.alloc.alloc = take;
    refused(&cfg, PKV_E_INVALID_ARG);
    assert_said(&said, "allocator");
    cfg = usual;
    cfg.device = 0;
    assert_int_equal(pkv_backend_create_cuda(&cfg, &be), PKV_OK);
    assert_int_equal(said.n, 0);
    assert_int_equal(pkv_backend_threads(be), 1);
    pkv_backend_destroy(be);
    pkv_backend_destroy(NULL);
}

/* Each allocation fails in turn; nothing is left behind. */
static void no_memory(void **state)
{
    (void)state;
    pkv_status status = PKV_E_NO_MEMORY;
    int n = 0;
    for (; status != PKV_OK; n++) {
        struct budget budget = { n, 0 };
        pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
        pkv_backend *be = NULL;
        cfg.alloc = (pkv_allocator){ take, give_back, &budget };
        status = pkv_backend_create_cuda(&cfg, &be);
        assert_int_equal(status, be ? PKV_OK : PKV_E_NO_MEMORY);
        pkv_backend_destroy(be);
        assert_int_equal(budget.live, 0);
        assert_true(n < 10);
    }
    assert_true(n > 1);
}

/* A kernel that cannot be prepared ends it; nothing is left behind. That there is no code for the
 * device is for good, whatever else may be the device's trouble of the day. */
static void no_kernel(void **state)
{
    (void)state;
    struct said said = { .n = 0 };
    struct budget budget = { 100, 0 };
    pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.log = (pkv_logger){ keep_line, &said };
    cfg.alloc = (pkv_allocator){ take, give_back, &budget };
    const char *first = pkv__cuda_variants[0].name;
    device_refuse_prepare(0, 2);
    refused(&cfg, PKV_E_DEVICE);
    assert_said(&said, "table_check on emulated device");
    device_refuse_prepare(0, DEVICE_NO_CODE);
    refused(&cfg, PKV_E_UNSUPPORTED);
    assert_said(&said, "prepare: refused");
    device_refuse_prepare(1, 2);
    refused(&cfg, PKV_E_DEVICE);
    assert_said(&said, first);
    device_refuse_prepare(1, DEVICE_NO_CODE);
    refused(&cfg, PKV_E_UNSUPPORTED);
    assert_said(&said, first);
    assert_int_equal(budget.live, 0);
    assert_int_equal(pkv_backend_create_cuda(&cfg, &be), PKV_OK);
    pkv_backend_destroy(be);
}

/* ------------------------------------------------------------------ what is listed */

static void assert_described(const pkv_kernel_desc *d, const struct pkv__cuda_variant *v)
{
    assert_string_equal(d->name, v->name);
    assert_string_equal(d->covers, v->covers);
    assert_true(strlen(v->name) > 0 && strlen(v->name) < sizeof d->name);
    assert_true(strlen(v->covers) > 0 && strlen(v->covers) < sizeof d->covers);
    assert_int_equal(d->op, v->op);
    assert_int_equal(d->dtype, v->dtype);
    assert_int_equal(d->isa, PKV_ISA_CUDA);
    assert_int_equal(d->min_sm, 80);
    assert_int_equal(d->shared_bytes, v->shared_bytes);
    assert_true(d->blocks_per_sm >= 1);
    assert_true(v->dim_lo <= v->dim_hi && v->launch && v->prepare);
    assert_true(v->n_threads >= 32 && v->n_threads <= 1024 && v->n_threads % 32 == 0);
}

static void kernels(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    pkv_kernel_desc d = { .struct_size = sizeof d }, other = d;
    assert_true(pkv__n_cuda_variants > 0 && pkv__n_cuda_variants <= PKV__CUDA_MAX_VARIANTS);
    for (int32_t i = 0; i < pkv__n_cuda_variants; i++) {
        assert_int_equal(pkv_kernel_info(be, i, &d), PKV_OK);
        assert_described(&d, &pkv__cuda_variants[i]);
        for (int32_t k = 0; k < i; k++) {
            assert_int_equal(pkv_kernel_info(be, k, &other), PKV_OK);
            if (strcmp(d.name, other.name) == 0) fail_msg("%s is listed twice", d.name);
        }
    }
    assert_int_equal(pkv_kernel_info(be, pkv__n_cuda_variants, &d), PKV_E_LIMIT);
    assert_int_equal(pkv_kernel_info(be, -1, &d), PKV_E_INVALID_ARG);
    pkv_backend_destroy(be);
}

/* ------------------------------------------------------------------ failed launches */

struct states {
    float *o[2], *lse[2], *out, *out_lse;
};

static pkv_status merge(pkv_backend *be, const struct states *s)
{
    const pkv_tensor3 o[2] = { { s->o[0], PKV_F32, 1, 8, 1, 8, 8 },
                               { s->o[1], PKV_F32, 1, 8, 1, 8, 8 } };
    const pkv_lse lse[2] = { { s->lse[0], 1, 1, 0 }, { s->lse[1], 1, 1, 0 } };
    pkv_tensor3 out = { s->out, PKV_F32, 1, 8, 1, 8, 8 };
    pkv_lse out_lse = { s->out_lse, 1, 1, 0 };
    return pkv_states_merge(be, o, lse, 2, NULL, &out, &out_lse);
}

/* A launch fails: PKV_E_DEVICE and what the device said; the same call then succeeds. */
static void failed_launch(void **state)
{
    (void)state;
    struct said said = { .n = 0 };
    pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
    pkv_backend *be = NULL;
    struct states s;
    const float zero = 0.f, one[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    cfg.log = (pkv_logger){ keep_line, &said };
    assert_int_equal(pkv_backend_create_cuda(&cfg, &be), PKV_OK);
    for (int i = 0; i < 2; i++) {
        s.o[i] = device_copy_of(one, sizeof one);
        s.lse[i] = device_copy_of(&zero, sizeof zero);
    }
    s.out = device_copy_of(NULL, sizeof one);
    s.out_lse = device_copy_of(NULL, sizeof zero);
    device_refuse_launch(0);
    assert_int_equal(merge(be, &s), PKV_E_DEVICE);
    assert_said(&said, "refused");
    assert_int_equal(merge(be, &s), PKV_OK);
    assert_int_equal(said.n, 0);
    for (int i = 0; i < 8; i++) assert_true(s.out[i] == 1.f);
    for (int i = 0; i < 2; i++) {
        device_free(s.o[i]);
        device_free(s.lse[i]);
    }
    device_free(s.out);
    device_free(s.out_lse);
    pkv_backend_destroy(be);
}

/* ------------------------------------------------------------------ a workspace */

/* The head alone is written, by work of the stream: when a graph is replayed, not when it is
 * captured. Less memory than a head is none. */
static void workspace(void **state)
{
    (void)state;
    struct cuda_log log = { "" };
    pkv_backend *be = cuda_backend(&log, 2);
    const size_t head_bytes = sizeof(struct pkv__cuda_head), bytes = head_bytes + 64;
    struct pkv__cuda_head *head = device_alloc(bytes);
    unsigned char *got = malloc(bytes), *want = malloc(bytes);
    assert_true(head && got && want);
    memset(want, 0xff, bytes);
    assert_int_equal(pkv_workspace_init(be, head, head_bytes - 1, NULL), PKV_E_INVALID_ARG);
    assert_has(log.text, "workspace_init");
    device_download(got, head, bytes);
    assert_memory_equal(got, want, bytes);
    device_capture_begin();
    assert_int_equal(pkv_workspace_init(be, head, bytes, NULL), PKV_OK);
    device_graph *graph = device_capture_end();
    device_download(got, head, bytes);
    assert_memory_equal(got, want, bytes);
    assert_int_equal(device_graph_run(graph), 0);
    device_download(got, head, bytes);
    memset(want, 0, head_bytes);
    ((struct pkv__cuda_head *)(void *)want)->magic = PKV__CUDA_WORKSPACE_MAGIC;
    assert_memory_equal(got, want, bytes);
    device_graph_free(graph);
    device_free(head);
    free(want);
    free(got);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations), cmocka_unit_test(no_memory),
        cmocka_unit_test(no_kernel),      cmocka_unit_test(kernels),
        cmocka_unit_test(failed_launch),  cmocka_unit_test(workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
