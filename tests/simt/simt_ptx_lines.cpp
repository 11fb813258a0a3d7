/* .file and .loc of PTX. */
#include "simt_ptx_lines.h"

#include "simt_ptx_text.h"

#include <cstdio>
#include <cstring>
#include <set>
#include <tuple>

namespace simt
{
namespace
{

bool is_kernel_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot && (!strcmp(dot, ".cu") || !strcmp(dot, ".cuh")) && strncmp(name, "pkv_dev", 7) != 0;
}

} // namespace

const char *ptx_kept(const std::string &name)
{
    static std::set<std::string> names;
    return names.insert(name).first->c_str();
}

bool ptx_lines::spot::operator<(const spot &o) const
{
    return std::tie(file, line, column) < std::tie(o.file, o.line, o.column);
}

bool ptx_lines::spot::operator==(const spot &o) const
{
    return file == o.file && line == o.line && column == o.column;
}

void ptx_lines::file(const std::string &text, int line)
{
    int id;
    const size_t quote = text.find('"'), end = text.rfind('"');
    if (sscanf(text.c_str(), ".file %d", &id) != 1 || quote == end)
        throw ptx_error(line, "a .file without a name");
    files_[id] = ptx_kept(text.substr(quote + 1, end - quote - 1));
}

void ptx_lines::loc(const std::string &text)
{
    spot here = {}, call = {};
    const size_t inlined = text.find("inlined_at");
    sscanf(text.c_str(), ".loc %d %d %d", &here.file, &here.line, &here.column);
    if (inlined != std::string::npos)
        sscanf(text.c_str() + inlined, "inlined_at %d %d %d", &call.file, &call.line, &call.column);
    if (here.line == 0) return; /* no line: what was before goes on */
    chain_ = { here };
    if (call.file == 0) return;
    const auto outer = calls_.find(call);
    chain_.push_back(call);
    if (outer != calls_.end())
        chain_.insert(chain_.end(), outer->second.begin(), outer->second.end());
    calls_[here] = { chain_.begin() + 1, chain_.end() };
}

int ptx_lines::now()
{
    if (chain_.empty()) return -1;
    if (all_.empty() || all_.back() != chain_) all_.push_back(chain_);
    return (int)all_.size() - 1;
}

site ptx_lines::resolve(int id) const
{
    site outermost = { "?", 0 };
    for (const spot &s : all_[(size_t)id]) {
        const auto file = files_.find(s.file);
        if (file == files_.end() || s.line == 0) continue;
        outermost = { file->second, s.line };
        if (is_kernel_file(file->second)) return outermost;
    }
    return outermost;
}

} // namespace simt
