/* From the text of a PTX file to a ptx_module: declarations, functions, instructions. */
#include "simt_device.h"
#include "simt_ptx_parser.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace simt
{

void ptx_parser::run()
{
    for (const ptx_piece &piece : ptx_pieces(text_)) take(piece);
    if (function_) throw ptx_error(0, "the text ends in a function");
    for (const auto &place : sites_)
        place.first->code[place.second.index].at = places_.resolve(place.second.place);
    link_calls();
}

void ptx_parser::take(const ptx_piece &p)
{
    if (p.kind == ptx_piece::open) return open(p);
    if (p.kind == ptx_piece::close) return close(p);
    if (p.kind == ptx_piece::label) return label(p);
    if (ptx_begins_with(p.text, ".loc") && !ptx_begins_with(p.text, ".local"))
        return places_.loc(p.text);
    if (ptx_begins_with(p.text, ".file")) return places_.file(p.text, p.line);
    if (p.text[0] == '.') return directive(p);
    if (depth_ == 0) throw ptx_error(p.line, "an instruction outside of functions: " + p.text);
    instruction(p);
}

void ptx_parser::open(const ptx_piece &p)
{
    if (!function_ || (depth_ == 0 && !has_head_))
        throw ptx_error(p.line, "a { without a function");
    has_head_ = false;
    depth_++;
    scopes_.emplace_back();
}

void ptx_parser::close(const ptx_piece &p)
{
    if (depth_ == 0) throw ptx_error(p.line, "a } without its {");
    scopes_.pop_back();
    if (--depth_ == 0) end_function();
}

void ptx_parser::label(const ptx_piece &p)
{
    if (depth_ == 0) throw ptx_error(p.line, "a label outside of functions");
    label_ = p.text;
    labels_[p.text] = (int32_t)function_->code.size();
}

void ptx_parser::directive(const ptx_piece &p)
{
    static const char *const ignored[] = { ".version", ".target",  ".address_size",
                                           ".maxntid", ".reqntid", ".minnctapersm",
                                           ".maxnreg", ".alias",   ".noreturn" };
    for (const char *name : ignored)
        if (ptx_begins_with(p.text, name)) return;
    if (ptx_begins_with(p.text, ".pragma")) return pragma(p);
    if (depth_ == 0 && p.text.find(".entry") != std::string::npos) return head(p, true);
    if (depth_ == 0 && p.text.find(".func") != std::string::npos) return head(p, false);
    if (ptx_begins_with(p.text, ".reg")) return registers(p);
    if (ptx_begins_with(p.text, ".branchtargets")) {
        lists_[label_] = ptx_split_list(p.text.substr(strlen(".branchtargets")));
        return;
    }
    variable(p);
}

/* Of the next load: where nvcc makes one wide load of a struct that has gaps, it says which bytes
 * it is after. Other pragmas are about speed. */
void ptx_parser::pragma(const ptx_piece &p)
{
    static const char *const used = "\"used_bytes_mask ";
    const size_t at = p.text.find(used);
    if (at != std::string::npos)
        used_ = (uint32_t)strtoull(p.text.c_str() + at + strlen(used), nullptr, 0);
}

std::string ptx_parser::last_word(const std::string &text)
{
    const size_t blank = text.find_last_of(" \t");
    return blank == std::string::npos ? text : text.substr(blank + 1);
}

/* `.space .align 4 .b8 name[16]`, in front of an initialiser. */
ptx_parser::declared ptx_parser::declaration(const std::string &text, int line) const
{
    declared d;
    size_t count = 1;
    std::string name = last_word(text);
    const size_t bracket = name.find('[');
    if (bracket != std::string::npos) {
        count = strtoull(name.c_str() + bracket + 1, nullptr, 0);
        name.resize(bracket);
    }
    d.name = name;
    std::string word;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find_first_of(" \t", at), text.size());
        word = text.substr(at, end - at);
        at = std::min(text.find_first_not_of(" \t", end), text.size());
        if (word == ".align") d.align = strtoull(text.c_str() + at, nullptr, 0);
        else if (word == ".param" || word == ".shared" || word == ".local" || word == ".global" ||
                 word == ".const" || word == ".reg")
            d.space = word;
        else if (word[0] == '.' && ptx_type_of(word.substr(1), d.type)) d.bytes = 1;
    }
    if (!d.bytes || name.empty()) throw ptx_error(line, "not understood: " + text);
    d.bytes = std::max<size_t>((size_t)d.type.bytes(), 1) * count;
    d.align = std::max<size_t>(d.align, (size_t)d.type.bytes());
    return d;
}

void ptx_parser::variable(const ptx_piece &p)
{
    const size_t equals = p.text.find('=');
    const declared d = declaration(ptx_trim(p.text.substr(0, equals)), p.line);
    if (d.space == ".shared") {
        const uint32_t base = (uint32_t)(module_.shared.size() + 1) * ptx_shared_window;
        module_.shared.push_back(std::make_unique<ptx_shared>(
            ptx_shared{ d.name, d.bytes, std::max<size_t>(d.align, 16), base }));
    } else if (d.space == ".local" && depth_ > 0) {
        locals_[d.name] = aligned(function_->local_bytes, d.align);
        function_->local_bytes = locals_[d.name] + d.bytes;
    } else if (d.space == ".param" && depth_ > 0) {
        params_[d.name] = aligned(function_->param_bytes, d.align);
        function_->param_bytes = params_[d.name] + d.bytes;
    } else if (d.space == ".global" || d.space == ".const") {
        global(d, equals == std::string::npos ? "" : p.text.substr(equals + 1), p.line);
    } else {
        throw ptx_error(p.line, "unknown directive: " + p.text);
    }
}

void ptx_parser::global(const declared &d, const std::string &initial, int line)
{
    void *memory = device_alloc(std::max<size_t>(d.bytes, 1));
    device_fill(memory, 0, d.bytes);
    module_.globals.push_back({ d.name, memory });
    std::string list = ptx_trim(initial);
    if (!list.empty() && list[0] == '{') list = list.substr(1, list.size() - 2);
    const size_t step = (size_t)d.type.bytes();
    size_t at = 0;
    for (const std::string &text : ptx_split_list(list)) {
        uint64_t value;
        if (!number(text, value)) throw ptx_error(line, "not a number: " + text);
        if (at + step > d.bytes) throw ptx_error(line, "too many values for " + d.name);
        device_upload(static_cast<char *>(memory) + at, &value, step);
        at += step;
    }
}

void ptx_parser::registers(const ptx_piece &p)
{
    const size_t blank = p.text.find_first_of(" \t", p.text.find('.', 1));
    ptx_type type;
    const std::string name = ptx_trim(p.text.substr(4, blank - 4));
    if (depth_ == 0 || name.empty() || !ptx_type_of(name.substr(1), type))
        throw ptx_error(p.line, "not understood: " + p.text);
    for (const std::string &reg : ptx_split_list(p.text.substr(blank))) {
        const size_t range = reg.find('<');
        const int bits = type.bits * type.lanes;
        if (range == std::string::npos) scopes_.back()[reg] = new_cell(0, bits);
        else
            for (int i = 0, n = atoi(reg.c_str() + range + 1); i < n; i++)
                scopes_.back()[reg.substr(0, range) + std::to_string(i)] = new_cell(0, bits);
    }
}

int32_t ptx_parser::new_cell(uint64_t value, int bits)
{
    function_->cells.push_back(value);
    function_->bits.push_back((uint8_t)bits);
    return (int32_t)function_->cells.size() - 1;
}

/* `.visible .func (results) name (params) .maxntid 32, 1, 1`, a declaration or a head. */
void ptx_parser::head(const ptx_piece &p, bool is_entry)
{
    const char *word = is_entry ? ".entry" : ".func";
    std::string rest = ptx_trim(p.text.substr(p.text.find(word) + strlen(word)));
    std::string results, params;
    if (rest[0] == '(') {
        results = rest.substr(1, rest.find(')') - 1);
        rest = ptx_trim(rest.substr(rest.find(')') + 1));
    }
    const size_t bracket = rest.find('(');
    const std::string name = ptx_trim(rest.substr(0, std::min(bracket, rest.find_first_of(" \t"))));
    if (bracket != std::string::npos)
        params = rest.substr(bracket + 1, rest.find(')') - bracket - 1);
    auto &slot = module_.functions[name];
    if (!slot) slot = std::make_unique<ptx_function>();
    if (slot->is_defined) throw ptx_error(p.line, "a second function " + name);
    begin_function(*slot, name, is_entry);
    formal(results, slot->results, p.line);
    formal(params, slot->params, p.line);
}

void ptx_parser::begin_function(ptx_function &f, const std::string &name, bool is_entry)
{
    f = ptx_function();
    f.name = name;
    f.is_entry = is_entry;
    function_ = &f;
    has_head_ = true;
    scopes_.clear();
    params_.clear();
    locals_.clear();
    constants_.clear();
    specials_.clear();
    labels_.clear();
    lists_.clear();
    jumps_.clear();
    places_.begin_function();
}

void ptx_parser::formal(const std::string &list, std::vector<ptx_param> &to, int line)
{
    for (const std::string &text : ptx_split_list(list)) {
        const declared d = declaration(text, line);
        if (d.space != ".param") throw ptx_error(line, "a parameter in a register: " + text);
        const size_t offset = aligned(function_->param_bytes, d.align);
        to.push_back({ d.name, offset, d.bytes });
        params_[d.name] = offset;
        function_->param_bytes = offset + d.bytes;
    }
}

void ptx_parser::end_function()
{
    for (const jump &j : jumps_) {
        ptx_instruction &i = function_->code[j.index];
        for (const std::string &name : j.labels) {
            const auto found = labels_.find(name);
            if (found == labels_.end()) throw ptx_error(j.line, "no label " + name);
            i.targets.push_back(found->second);
        }
        i.target = i.targets[0];
    }
    function_->is_defined = true;
    function_ = nullptr;
}

void ptx_parser::link_calls()
{
    for (const pending_call &c : calls_) {
        const auto found = module_.functions.find(c.callee);
        if (found == module_.functions.end() || !found->second->is_defined)
            throw ptx_error(c.line, "a call of " + c.callee + ", which is not in this file");
        ptx_instruction &i = c.caller->code[c.index];
        const ptx_function &callee = *found->second;
        if (i.moved[0].size() != callee.results.size() || i.moved[1].size() != callee.params.size())
            throw ptx_error(c.line, "a call of " + c.callee + " with other parameters");
        i.callee = &callee;
    }
}

void ptx_parser::instruction(const ptx_piece &p)
{
    ptx_instruction i;
    std::string text = p.text;
    if (text[0] == '@') {
        const size_t blank = text.find_first_of(" \t");
        const ptx_operand guard = operand(text.substr(1, blank - 1), p.line);
        i.guard = guard.cell[0];
        i.guard_inverted = guard.inverted;
        text = ptx_trim(text.substr(blank));
    }
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    const std::string opcode = text.substr(0, end);
    const std::vector<std::string> list = ptx_split_list(text.substr(end));
    const std::string wrong = ptx_decode(opcode, i);
    if (!wrong.empty()) throw ptx_error(p.line, wrong);
    if (ptx_begins_with(opcode, "call")) call(i, list, p.line);
    else if (ptx_begins_with(opcode, "br") && opcode.compare(0, 4, "brev") != 0)
        branch(i, opcode, list, p.line);
    else operands(i, list, opcode, p.line);
    if (!ptx_takes_operands(opcode, i.n_operands))
        throw ptx_error(p.line,
                        "opcode " + opcode + " with " + std::to_string(i.n_operands) + " operands");
    i.used = used_;
    used_ = ~0u;
    const int place = places_.now();
    if (place >= 0) sites_.push_back({ function_, { function_->code.size(), place } });
    else i.at = { ptx_kept(module_.name), p.line };
    function_->code.push_back(i);
}

void ptx_parser::operands(ptx_instruction &i, const std::vector<std::string> &list,
                          const std::string &opcode, int line)
{
    const size_t max = sizeof i.operand / sizeof i.operand[0];
    if (list.size() > max) throw ptx_error(line, "too many operands for " + opcode);
    for (const std::string &text : list) i.operand[i.n_operands++] = operand(text, line);
}

void ptx_parser::branch(ptx_instruction &i, const std::string &opcode,
                        const std::vector<std::string> &list, int line)
{
    const bool indexed = ptx_begins_with(opcode, "brx");
    if (list.size() != (indexed ? 2u : 1u)) throw ptx_error(line, "a branch to nowhere");
    const auto found = lists_.find(list.back());
    if (indexed && found == lists_.end()) throw ptx_error(line, "no .branchtargets " + list.back());
    if (indexed) i.operand[i.n_operands++] = operand(list[0], line);
    jumps_.push_back({ function_->code.size(),
                       indexed ? found->second : std::vector<std::string>{ list[0] }, line });
}

/* `call.uni (results), name, (arguments)`: with either list or without. */
void ptx_parser::call(ptx_instruction &i, const std::vector<std::string> &list, int line)
{
    std::string name;
    for (const std::string &part : list) {
        if (part[0] != '(') {
            name = part;
            continue;
        }
        for (const std::string &arg : ptx_split_list(part.substr(1, part.size() - 2))) {
            const auto found = params_.find(arg);
            if (found == params_.end()) throw ptx_error(line, "no .param " + arg);
            i.moved[name.empty() ? 0 : 1].push_back((int32_t)found->second);
        }
    }
    calls_.push_back({ function_, function_->code.size(), name, line });
}

ptx_module::~ptx_module()
{
    for (const global_t &g : globals) device_free(g.memory);
}

std::shared_ptr<const ptx_module> ptx_parse(const char *name, const std::string &text,
                                            std::string &error)
{
    auto module = std::make_shared<ptx_module>();
    module->name = name;
    try {
        ptx_parser(*module, text).run();
    } catch (const ptx_error &e) {
        error = std::string(name) + ":" + std::to_string(e.line) + ": " + e.what();
        return nullptr;
    }
    error.clear();
    return module;
}

} // namespace simt
