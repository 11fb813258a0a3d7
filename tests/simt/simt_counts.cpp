/* Counts of requests to memory (simt_counts.h). Lanes of a warp do not run in step here, so the
 * n-th time that a lane comes by a place belongs to the n-th time of the others. */
#include "simt_counts.h"
#include "simt_race.h"
#include "simt_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>

namespace simt
{
namespace
{

/* A place may be an instruction for several things. */
struct line_key {
    place where;
    uint8_t shared, store;
    uint16_t bytes;

    bool operator==(const line_key &o) const
    {
        return where == o.where && shared == o.shared && store == o.store && bytes == o.bytes;
    }
    uint64_t hash() const
    {
        return ((uint64_t)where << 24 | (uint64_t)bytes << 8 | (uint64_t)shared << 1 | store) *
               0x9e3779b97f4a7c15u;
    }
};

struct request_key {
    line_key line;
    uint32_t nth;

    bool operator==(const request_key &o) const { return line == o.line && nth == o.nth; }
};

struct hasher {
    size_t operator()(const line_key &k) const { return k.hash(); }
    size_t operator()(const request_key &k) const
    {
        return (k.line.hash() ^ k.nth) * 0xd6e8feb86659fd93u;
    }
};

struct request {
    uintptr_t address[warp_size];
    uint32_t lanes = 0;
};

struct counter {
    std::unordered_map<line_key, simt_count, hasher> lines;
    std::vector<std::unordered_map<line_key, uint32_t, hasher>> visits;     /* per thread */
    std::vector<std::unordered_map<request_key, request, hasher>> requests; /* per warp, open */
};

counter &all()
{
    static counter the;
    return the;
}

bool has(const request &r, int lane)
{
    return r.lanes >> lane & 1;
}

uint64_t count_distinct(std::vector<uintptr_t> &v)
{
    std::sort(v.begin(), v.end());
    return (uint64_t)(std::unique(v.begin(), v.end()) - v.begin());
}

uint64_t sectors(const request &r, uint32_t bytes)
{
    std::vector<uintptr_t> touched;
    for (int i = 0; i < warp_size; i++)
        for (uintptr_t s = r.address[i] / 32; has(r, i) && s <= (r.address[i] + bytes - 1) / 32;
             s++)
            touched.push_back(s);
    return count_distinct(touched);
}

/* Of lanes first .. last - 1: the most words that one bank has to give; 0 if no lane asks. */
uint64_t wavefronts(const request &r, uint32_t bytes, int first, int last)
{
    std::vector<uintptr_t> words;
    uint64_t of_bank[32] = { 0 }, most = 0;
    for (int i = first; i < last; i++)
        for (uintptr_t w = r.address[i] / 4; has(r, i) && w <= (r.address[i] + bytes - 1) / 4; w++)
            words.push_back(w);
    words.resize(count_distinct(words));
    for (uintptr_t w : words) most = std::max(most, ++of_bank[w % 32]);
    return most;
}

void close(const line_key &line, const request &r)
{
    simt_count &c = all().lines[line];
    c.requests++;
    const uint64_t n = (uint64_t)__builtin_popcount(r.lanes);
    c.lanes += n;
    if (!line.shared) {
        c.units += sectors(r, line.bytes);
        c.ideal += (n * line.bytes + 31) / 32;
        return;
    }
    const int part = line.bytes <= 4 ? warp_size : std::max(1, 128 / line.bytes);
    for (int first = 0; first < warp_size; first += part) {
        const int last = std::min(first + part, warp_size); /* of 12 bytes, 10 lanes are a part */
        const uint64_t units = wavefronts(r, line.bytes, first, last);
        c.units += units;
        c.ideal += units > 0;
    }
}

std::vector<simt_count> by_line()
{
    std::vector<place> places;
    std::vector<std::pair<line_key, simt_count>> raw(all().lines.begin(), all().lines.end());
    for (const auto &r : raw) places.push_back(r.first.where);
    const std::vector<site> sites = explain(places);
    std::map<std::tuple<std::string, int, int, int, uint32_t>, simt_count> merged;
    for (size_t i = 0; i < raw.size(); i++) {
        const line_key &k = raw[i].first;
        const char *file = base_name(sites[i].file);
        simt_count &c = merged[{ file, sites[i].line, k.shared, k.store, k.bytes }];
        c.file = file;
        c.line = sites[i].line;
        c.is_shared = k.shared;
        c.is_store = k.store;
        c.bytes = k.bytes;
        c.requests += raw[i].second.requests;
        c.lanes += raw[i].second.lanes;
        c.units += raw[i].second.units;
        c.ideal += raw[i].second.ideal;
    }
    std::vector<simt_count> sorted;
    for (const auto &c : merged) sorted.push_back(c.second);
    return sorted;
}

} // namespace

void counts_block_begin()
{
    all().visits.assign(m.threads.size(), {});
    all().requests.assign(m.meetings.size(), {});
}

void counts_block_end()
{
    for (auto &warp : all().requests)
        for (const auto &r : warp) close(r.first.line, r.second);
    all().requests.clear();
}

void count_access(const void *p, size_t bytes, access kind, bool shared, place where)
{
    const thread &t = *m.running;
    const line_key line = { where, shared, kind == access::store, (uint16_t)bytes };
    const request_key key = { line, all().visits[(size_t)t.idx][line]++ };
    auto &open = all().requests[(size_t)t.warp()];
    request &r = open[key];
    r.address[t.lane()] = reinterpret_cast<uintptr_t>(p);
    r.lanes |= 1u << t.lane();
    if (r.lanes != full_mask) return;
    close(line, r);
    open.erase(key);
}

} // namespace simt

using namespace simt;

extern "C" {

void simt_counts_reset(void)
{
    all().lines.clear();
}

int simt_counts_get(simt_count *out, int cap)
{
    const std::vector<simt_count> sorted = by_line();
    std::copy_n(sorted.begin(), std::min((size_t)cap, sorted.size()), out);
    return (int)sorted.size();
}

/* The last one's place and width, the numbers of all. */
static void add_count(simt_count *sum, const simt_count &c)
{
    const simt_count before = *sum;
    *sum = c;
    sum->requests += before.requests;
    sum->lanes += before.lanes;
    sum->units += before.units;
    sum->ideal += before.ideal;
}

int simt_counts_of_line(const char *file, int line, int is_shared, int is_store, simt_count *out)
{
    simt_count sum = {};
    for (const simt_count &c : by_line())
        if (c.line == line && !strcmp(c.file, file) && c.is_shared == is_shared &&
            c.is_store == is_store)
            add_count(&sum, c);
    *out = sum;
    return sum.requests > 0;
}

simt_count simt_counts_of_file(const char *file, int is_shared, int is_store, uint32_t bytes)
{
    simt_count sum = {};
    for (const simt_count &c : by_line())
        if (c.bytes == bytes && !strcmp(c.file, file) && c.is_shared == is_shared &&
            c.is_store == is_store)
            add_count(&sum, c);
    return sum;
}

void simt_counts_print(FILE *to)
{
    fprintf(to, "%-32s %-6s %-5s %5s %10s %6s %8s %9s\n", "line", "space", "", "bytes", "requests",
            "lanes", "units", "per ideal");
    for (const simt_count &c : by_line()) {
        char line[64];
        snprintf(line, sizeof line, "%s:%d", c.file, c.line);
        fprintf(to, "%-32s %-6s %-5s %5u %10llu %6.1f %8.2f %9.2f\n", line,
                c.is_shared ? "shared" : "global", c.is_store ? "store" : "load", c.bytes,
                (unsigned long long)c.requests, (double)c.lanes / (double)c.requests,
                (double)c.units / (double)c.requests, (double)c.units / (double)c.ideal);
    }
}

} /* extern "C" */
