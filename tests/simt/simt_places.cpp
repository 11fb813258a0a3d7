/* Places in device code, small enough to be kept for every byte of memory. */
#include "simt_race.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <unistd.h>

namespace simt
{
namespace
{

constexpr place first_named = 1u << 31;

struct names_t {
    std::vector<site> sites;
    std::map<std::pair<const char *, int>, place> index;
    std::map<place, site> addresses; /* that addr2line was asked about */
    std::set<std::string> files;     /* whose characters sites point to */
};

names_t &names()
{
    static names_t all;
    return all;
}

/* A line of addr2line's answer: "file.cu:12" or "file.cu:12 (discriminator 3)" or "??:?". */
site parse_answer(const char *line)
{
    const char *colon = strrchr(line, ':');
    if (!colon || line[0] == '?') return { "??", 0 };
    const std::string file(line, (size_t)(colon - line));
    return { names().files.insert(file).first->c_str(), atoi(colon + 1) };
}

void ask_addr2line(const std::vector<place> &places)
{
    if (places.empty()) return;
    char text[512];
    snprintf(text, sizeof text, "addr2line -s -e /proc/%ld/exe", (long)getpid());
    std::string command = text;
    for (place p : places) {
        snprintf(text, sizeof text, " %x", p - 1);
        command += text;
        names().addresses[p] = { "??", 0 };
    }
    FILE *answers = popen((command + " 2>/dev/null").c_str(), "r");
    if (!answers) return;
    for (place p : places)
        if (fgets(text, sizeof text, answers)) names().addresses[p] = parse_answer(text);
    pclose(answers);
}

} // namespace

place place_of(const site &at)
{
    if (!at.file) return (place) reinterpret_cast<uintptr_t>(at.pc);
    const auto found = names().index.try_emplace({ at.file, at.line }, 0);
    if (found.second) {
        found.first->second = first_named + (place)names().sites.size();
        names().sites.push_back(at);
    }
    return found.first->second;
}

/* The call before a return address is what made the access: one byte back is inside it. */
std::vector<site> explain(const std::vector<place> &places)
{
    std::vector<place> unknown;
    for (place p : places)
        if (p < first_named && !names().addresses.count(p)) unknown.push_back(p);
    ask_addr2line(unknown);
    std::vector<site> sites;
    for (place p : places)
        sites.push_back(p < first_named ? names().addresses[p] : names().sites[p - first_named]);
    return sites;
}

} // namespace simt
