/* Launches as a stream sees them: recorded, refused, captured and replayed. */
#include "simt_state.h"

#include <cstdio>
#include <cstring>

namespace simt
{
namespace
{

struct stream_tests {
    device_launch *recorded = nullptr;
    int32_t cap = 0, n = 0;
    int32_t refuse_after = -1; /* -1: never */
    int32_t unprepared_after = -1;
    int unprepared_code = 0;
    device_graph *capture = nullptr;
};

stream_tests &tests()
{
    static stream_tests the;
    return the;
}

} // namespace
} // namespace simt

using namespace simt;

struct device_graph {
    std::vector<std::function<int()>> nodes;
};

bool simt::stream_refuses()
{
    if (tests().refuse_after < 0 || tests().refuse_after-- > 0) return false;
    m.failed = true;
    snprintf(m.error, sizeof m.error, "launch: refused, as the test asked");
    return true;
}

int simt::stream_prepares()
{
    if (tests().unprepared_after < 0 || tests().unprepared_after-- > 0) return 0;
    snprintf(m.error, sizeof m.error, "prepare: refused, as the test asked");
    return tests().unprepared_code;
}

bool simt::stream_captures()
{
    return tests().capture != nullptr;
}

void simt::stream_adds(std::function<int()> node)
{
    tests().capture->nodes.push_back(std::move(node));
}

void simt::stream_records(const launch_shape &shape, size_t params_bytes)
{
    stream_tests &t = tests();
    if (t.recorded && t.n < t.cap)
        t.recorded[t.n] = { shape.n_blocks, shape.n_threads, shape.shared_bytes, params_bytes };
    if (t.recorded) t.n++;
}

bool simt::stream_takes(const launch_shape &shape, const kernel_call &call)
{
    stream_tests &t = tests();
    stream_records(shape, call.params_bytes);
    if (!t.capture) return false;
    const char *bytes = static_cast<const char *>(call.params);
    const std::vector<char> params(bytes, bytes + call.params_bytes);
    t.capture->nodes.push_back([shape, call, params] {
        return run_grid(shape, { call.id, call.body, params.data(), params.size() });
    });
    return true;
}

bool simt::captured(int (*run)(const void *data), const void *data, size_t bytes)
{
    if (!tests().capture) return false;
    const char *from = static_cast<const char *>(data);
    const std::vector<char> copy(from, from + bytes);
    tests().capture->nodes.push_back([run, copy] { return run(copy.data()); });
    return true;
}

extern "C" {

void device_capture_begin(void)
{
    tests().capture = new device_graph;
}

device_graph *device_capture_end(void)
{
    device_graph *graph = tests().capture;
    tests().capture = nullptr;
    return graph;
}

int32_t device_graph_n_nodes(const device_graph *graph)
{
    return (int32_t)graph->nodes.size();
}

int device_graph_run(const device_graph *graph)
{
    for (const auto &node : graph->nodes)
        if (node() != 0) return 1;
    return 0;
}

void device_graph_free(device_graph *graph)
{
    delete graph;
}

void device_record(device_launch *list, int32_t cap)
{
    tests().recorded = list;
    tests().cap = cap;
    tests().n = 0;
}

int32_t device_n_recorded(void)
{
    return tests().n;
}

void device_refuse_launch(int32_t n)
{
    tests().refuse_after = n;
}

void device_refuse_prepare(int32_t n, int code)
{
    tests().unprepared_after = n;
    tests().unprepared_code = code;
}

} /* extern "C" */
