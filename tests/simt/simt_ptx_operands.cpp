/* Operands of PTX: each becomes a cell of the function, or several. */
#include "simt_ptx_parser.h"

#include <cstdlib>
#include <cstring>

namespace simt
{

ptx_operand ptx_parser::operand(std::string text, int line)
{
    ptx_operand o;
    if (text[0] == '!') {
        o.inverted = true;
        text = ptx_trim(text.substr(1));
    }
    if (text[0] == '[') {
        address(o, ptx_trim(text.substr(1, text.size() - 2)), line);
        return o;
    }
    const size_t bar = text.find('|');
    std::vector<std::string> parts = { text };
    if (text[0] == '{') parts = ptx_split_list(text.substr(1, text.size() - 2));
    else if (bar != std::string::npos)
        parts = { ptx_trim(text.substr(0, bar)), ptx_trim(text.substr(bar + 1)) };
    if (parts.size() > ptx_operand::max_cells) throw ptx_error(line, "too many in " + text);
    for (const std::string &part : parts) o.cell[o.n++] = cell(part, line);
    return o;
}

/* [name], [name+4], [name+-4], [16] */
void ptx_parser::address(ptx_operand &o, const std::string &text, int line)
{
    const size_t plus = text.find('+');
    uint64_t offset = 0;
    if (plus != std::string::npos && !number(ptx_trim(text.substr(plus + 1)), offset))
        throw ptx_error(line, "not an offset: " + text);
    o.address = true;
    o.n = 1;
    o.cell[0] = cell(ptx_trim(text.substr(0, plus)), line);
    o.offset = (int64_t)offset;
}

bool ptx_parser::number(const std::string &text, uint64_t &value)
{
    char *end;
    const bool is_float = text.size() > 2 && text[0] == '0' && strchr("fFdD", text[1]);
    if (is_float) value = strtoull(text.c_str() + 2, &end, 16);
    else if (text[0] == '-') value = (uint64_t)strtoll(text.c_str(), &end, 0);
    else value = strtoull(text.c_str(), &end, 0);
    if (*end == 'U') end++;
    return !text.empty() && *end == 0;
}

int32_t ptx_parser::constant(uint64_t value)
{
    const auto found = constants_.try_emplace(value, 0);
    if (found.second) found.first->second = new_cell(value, 64);
    return found.first->second;
}

int32_t ptx_parser::cell(const std::string &text, int line)
{
    uint64_t value;
    if (text == "_") return new_cell(0, 64);
    if (text == "WARP_SZ") return constant(warp_size);
    for (size_t s = scopes_.size(); s-- > 0;) {
        const auto found = scopes_[s].find(text);
        if (found != scopes_[s].end()) return found->second;
    }
    if (text[0] == '%') return special(text, line);
    if (number(text, value)) return constant(value);
    return symbol(text, line);
}

int32_t ptx_parser::special(const std::string &text, int line)
{
    static const std::unordered_map<std::string, ptx_special> known = {
        { "%tid.x", ptx_special::tid },
        { "%ntid.x", ptx_special::ntid },
        { "%ctaid.x", ptx_special::ctaid },
        { "%nctaid.x", ptx_special::nctaid },
        { "%laneid", ptx_special::laneid },
        { "%warpid", ptx_special::warpid },
        { "%lanemask_eq", ptx_special::lanemask_eq },
        { "%lanemask_lt", ptx_special::lanemask_lt },
        { "%lanemask_le", ptx_special::lanemask_le },
        { "%lanemask_gt", ptx_special::lanemask_gt },
        { "%lanemask_ge", ptx_special::lanemask_ge },
    };
    const bool other_axis = text.size() > 2 && (text.compare(text.size() - 2, 2, ".y") == 0 ||
                                                text.compare(text.size() - 2, 2, ".z") == 0);
    if (other_axis && (ptx_begins_with(text, "%tid") || ptx_begins_with(text, "%ctaid")))
        return constant(0);
    if (other_axis && (ptx_begins_with(text, "%ntid") || ptx_begins_with(text, "%nctaid")))
        return constant(1);
    const auto found = known.find(text);
    if (found == known.end()) throw ptx_error(line, "unknown register " + text);
    const auto made = specials_.try_emplace(text, 0);
    if (made.second) {
        made.first->second = new_cell(0, 64);
        function_->specials.push_back({ made.first->second, found->second });
    }
    return made.first->second;
}

int32_t ptx_parser::symbol(const std::string &text, int line)
{
    const auto param = params_.find(text), local = locals_.find(text);
    if (param != params_.end()) return constant(param->second);
    if (local != locals_.end()) {
        function_->specials.push_back({ new_cell(local->second, 64), ptx_special::local_base });
        return function_->specials.back().first;
    }
    for (const auto &g : module_.globals)
        if (g.name == text) return constant(reinterpret_cast<uintptr_t>(g.memory));
    for (size_t s = module_.shared.size(); s-- > 0;)
        if (module_.shared[s]->name == text) {
            function_->shared.push_back(module_.shared[s].get());
            return constant(module_.shared[s]->base);
        }
    throw ptx_error(line, "unknown name " + text);
}

} // namespace simt
