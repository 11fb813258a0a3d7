/* Opcodes of PTX with their types and modifiers. What is not in the tables is an error that names
 * it, so that no part of an instruction is dropped unseen. */
#include "simt_ptx_code.h"

#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace simt
{
namespace
{

struct entry {
    const ptx_opcode *opcode;
    ptx_mods allowed;
    bool is_arithmetic; /* whose floats are f32 and f64 only */
};

const char *const mod_names[] = {
#define PTX_MODIFIER_NAME(id, text) text,
    PTX_MODIFIERS(PTX_MODIFIER_NAME)
#undef PTX_MODIFIER_NAME
};

/* The index of a modifier, or -1. */
int mod_of(const std::string &text)
{
    static const auto index = [] {
        std::unordered_map<std::string, int> map;
        for (int i = 0; i < (int)ptx_mod::n; i++) map[mod_names[i]] = i;
        return map;
    }();
    const auto found = index.find(text);
    return found == index.end() ? -1 : found->second;
}

std::vector<std::string> split(const std::string &text, char by)
{
    std::vector<std::string> parts;
    size_t from = 0;
    for (size_t at; (at = text.find(by, from)) != std::string::npos; from = at + 1)
        parts.push_back(text.substr(from, at - from));
    parts.push_back(text.substr(from));
    return parts;
}

ptx_mods mods_of_list(const char *list)
{
    ptx_mods mods;
    if (*list)
        for (const std::string &name : split(list, ' ')) mods.set((size_t)mod_of(name));
    return mods;
}

/* Made at its first use: the tables lie in other files. */
const std::unordered_map<std::string, entry> &entries()
{
    static const auto all = [] {
        std::unordered_map<std::string, entry> map;
        const ptx_opcode_list lists[] = { ptx_integer_opcodes(), ptx_float_opcodes(),
                                          ptx_cvt_opcodes(), ptx_machine_opcodes() };
        for (int l = 0; l < 4; l++)
            for (size_t i = 0; i < lists[l].n; i++) {
                const ptx_opcode &o = lists[l].first[i];
                map[o.name] = { &o, mods_of_list(o.mods), l < 2 };
            }
        return map;
    }();
    return all;
}

} // namespace

bool ptx_type_of(const std::string &text, ptx_type &type)
{
    static const struct {
        const char *name;
        ptx_type type;
    } named[] = {
        { "pred", { ptx_kind::pred, 1, 1 } },   { "bf16", { ptx_kind::bf, 16, 1 } },
        { "f16x2", { ptx_kind::f, 16, 2 } },    { "bf16x2", { ptx_kind::bf, 16, 2 } },
        { "e4m3x2", { ptx_kind::e4m3, 8, 2 } }, { "e5m2x2", { ptx_kind::e5m2, 8, 2 } },
    };
    for (const auto &n : named)
        if (text == n.name) {
            type = n.type;
            return true;
        }
    const char *letters = "usbf", *found = text.empty() ? nullptr : strchr(letters, text[0]);
    if (!found || text.size() < 2 || text.find_first_not_of("0123456789", 1) != std::string::npos)
        return false;
    const int bits = atoi(text.c_str() + 1);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return false;
    const ptx_kind kinds[] = { ptx_kind::u, ptx_kind::s, ptx_kind::b, ptx_kind::f };
    type = { kinds[found - letters], (uint8_t)bits, 1 };
    return true;
}

/* The only arithmetic on halves that kernels use: sub.rn.f16x2. */
static bool is_half_sub(const std::vector<std::string> &parts)
{
    return parts == std::vector<std::string>{ "sub", "rn", "f16x2" };
}

std::string ptx_decode(const std::string &opcode, ptx_instruction &i)
{
    const std::vector<std::string> parts = split(opcode, '.');
    const auto found = entries().find(parts[0]);
    if (found == entries().end()) return "unknown opcode " + opcode;
    const entry &e = found->second;
    i.run = e.opcode->run;
    for (size_t p = 1; p < parts.size(); p++) {
        ptx_type type;
        const int mod = mod_of(parts[p]);
        if (ptx_type_of(parts[p], type)) {
            if (i.n_types == 4) return "too many types in " + opcode;
            if (e.is_arithmetic && type.is_float() && type.bits < 32 && !is_half_sub(parts))
                return "no arithmetic on " + parts[p] + ": " + opcode;
            i.type[i.n_types++] = type;
        } else if (mod < 0 || !e.allowed[(size_t)mod]) {
            return "unknown modifier ." + parts[p] + " of opcode " + opcode;
        } else {
            i.mods.set((size_t)mod);
        }
    }
    if (i.n_types != e.opcode->n_types)
        return "opcode " + opcode + " with " + std::to_string(i.n_types) + " types instead of " +
               std::to_string(e.opcode->n_types);
    return "";
}

bool ptx_takes_operands(const std::string &opcode, int n)
{
    const ptx_opcode &o = *entries().at(split(opcode, '.')[0]).opcode;
    return n >= o.min_operands && n <= o.max_operands;
}

} // namespace simt
