// A C++17 program that knows the installed package only. Each part is used a little, and
// every number that is checked can be worked out by hand.
#include <pagedkv/pagedkv.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace
{
int n_failed = 0;

void expect(bool good, const char *what)
{
    if (good) return;
    std::printf("failed: %s\n", what);
    n_failed++;
}

struct destroy {
    void operator()(pkv_backend *be) const { pkv_backend_destroy(be); }
    void operator()(pkv_store *store) const { pkv_store_destroy(store); }
    void operator()(pkv_blockmgr *mgr) const { pkv_blockmgr_destroy(mgr); }
};

constexpr pkv_kv_shape shape = { 1, 1, 8, 4, PKV_F32 };

// One sequence of one token: the only visible key has weight 1, so attention returns its V exactly.
void one_token(pkv_backend *be, pkv_store *store, pkv_blockmgr *mgr)
{
    alignas(64) std::array<float, 8> q = { 1, 2, 3, 4, 5, 6, 7, 8 }, k = q, v = {}, out = {};
    for (std::size_t i = 0; i < v.size(); i++) v[i] = 0.25f * static_cast<float>(i) - 3.f;

    pkv_seq seq = { 0 };
    expect(pkv_seq_open(mgr, pkv_ns{ 0 }, &seq) == PKV_OK, "open");
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    const pkv_reserve_req want = { seq, 1 };
    expect(pkv_seq_reserve(mgr, &want, 1, &work) == PKV_OK && work.n_copy == 0, "reserve");
    std::int64_t slot = -1;
    expect(pkv_seq_slots(mgr, seq, 0, 0, 1, &slot) == PKV_OK, "slots");
    const std::int32_t *row = nullptr;
    std::int32_t row_len = 0;
    expect(pkv_seq_row(mgr, seq, 0, &row, &row_len) == PKV_OK && row_len == 1, "row");
    expect(slot == 4 * static_cast<std::int64_t>(row[0]), "slot is block * block_tokens + 0");

    pkv_kv_view k_view, v_view;
    expect(pkv_store_views(store, 0, &k_view, &v_view) == PKV_OK, "views");
    const pkv_tensor3 tk = { k.data(), PKV_F32, 1, 8, 1, 8, 8 },
                      tv = { v.data(), PKV_F32, 1, 8, 1, 8, 8 };
    pkv_kv_write_args write = PKV_KV_WRITE_ARGS_INIT;
    write.k = &tk, write.v = &tv, write.slots = &slot, write.k_view = &k_view,
    write.v_view = &v_view;
    expect(pkv_kv_write(be, &write, nullptr) == PKV_OK, "kv_write");

    std::size_t bytes = 0;
    expect(pkv_attn_workspace(be, 1, 1, 8, 8, &bytes) == PKV_OK, "workspace size");
    void *workspace = std::aligned_alloc(64, bytes / 64 * 64 + 64);
    const std::int32_t kv_len = 1;
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    batch.n_seqs = 1, batch.table = row, batch.table_stride = row_len, batch.kv_len = &kv_len;
    const pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    const pkv_tensor3 tq = { q.data(), PKV_F32, 1, 8, 1, 8, 8 };
    pkv_tensor3 to = { out.data(), PKV_F32, 1, 8, 1, 8, 8 };
    expect(pkv_attn_run(be, &tq, &k_view, &v_view, &batch, &opts, workspace, bytes, nullptr, &to,
                        nullptr) == PKV_OK,
           "attention");
    expect(out == v, "one key has weight 1");
    std::free(workspace);

    const std::int32_t id = 42;
    const pkv_tokens token = { &id, 1, nullptr, 0 };
    expect(pkv_seq_commit(mgr, seq, &token, PKV_STEP_NONE) == PKV_OK, "commit");
    expect(pkv_seq_close(mgr, seq) == PKV_OK, "close");
    expect(pkv_seq_close(mgr, seq) == PKV_E_STALE, "a second close is refused");
}
} // namespace

int main()
{
    const std::string version = std::to_string(PKV_VERSION_MAJOR) + "." +
                                std::to_string(PKV_VERSION_MINOR) + "." +
                                std::to_string(PKV_VERSION_PATCH);
    expect(version == pkv_version(), "header and library have one version");
    expect(pkv_abi_version() == PKV_ABI_VERSION, "header and library have one ABI");
    expect(std::strcmp(pkv_status_name(PKV_E_NO_BLOCKS), "PKV_E_NO_BLOCKS") == 0, "status name");

    std::string last_line;
    pkv_store_config store_cfg = PKV_STORE_CONFIG_INIT;
    store_cfg.shape = shape;
    store_cfg.n_blocks = 1; // too few: the log says so
    store_cfg.log.ctx = &last_line;
    store_cfg.log.fn = [](void *ctx, pkv_log_level, const char *text) {
        *static_cast<std::string *>(ctx) = text;
    };
    pkv_store *raw_store = nullptr;
    expect(pkv_store_create(&store_cfg, &raw_store) == PKV_E_INVALID_ARG, "one block is too few");
    expect(last_line.find("n_blocks") != std::string::npos, "the log names the field");
    store_cfg.n_blocks = 8;
    expect(pkv_store_create(&store_cfg, &raw_store) == PKV_OK, "store");
    const std::unique_ptr<pkv_store, destroy> store(raw_store);

    pkv_blockmgr_config mgr_cfg = PKV_BLOCKMGR_CONFIG_INIT;
    mgr_cfg.n_blocks = 8, mgr_cfg.block_tokens = 4, mgr_cfg.max_seqs = 2,
    mgr_cfg.max_seq_tokens = 16;
    pkv_blockmgr *raw_mgr = nullptr;
    expect(pkv_blockmgr_create(&mgr_cfg, nullptr, &raw_mgr) == PKV_OK, "manager");
    const std::unique_ptr<pkv_blockmgr, destroy> mgr(raw_mgr);

    pkv_cpu_config cpu = PKV_CPU_CONFIG_INIT;
    pkv_backend *raw_be = nullptr;
    expect(pkv_backend_create_cpu(&cpu, &raw_be) == PKV_OK, "backend");
    const std::unique_ptr<pkv_backend, destroy> be(raw_be);

    if (n_failed == 0) one_token(be.get(), store.get(), mgr.get());
    expect(pkv_blockmgr_check(mgr.get(), 3) == PKV_OK, "the manager's invariants hold");
    pkv_cuda_config cuda = PKV_CUDA_CONFIG_INIT;
    cuda.log = store_cfg.log;
    last_line = "a device is here";
    pkv_backend *raw_cuda = nullptr;
    const pkv_status status = pkv_backend_create_cuda(&cuda, &raw_cuda);
    expect(status == PKV_OK || status == PKV_E_UNSUPPORTED, "CUDA is there or unsupported");
    const std::unique_ptr<pkv_backend, destroy> with_cuda(raw_cuda);
    std::printf("cuda: %s\n", last_line.c_str());
    std::printf("consumer: pagedkv %s, best level %s, %s\n", pkv_version(),
                pkv_isa_name(pkv_isa_detect()), n_failed == 0 ? "all good" : "FAILED");
    return n_failed == 0 ? 0 : 1;
}
