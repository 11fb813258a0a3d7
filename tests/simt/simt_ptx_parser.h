/* The parser of PTX: one pass over the pieces of a text, a module being filled. */
#ifndef SIMT_PTX_PARSER_H
#define SIMT_PTX_PARSER_H

#include "simt_ptx_code.h"
#include "simt_ptx_lines.h"
#include "simt_ptx_text.h"

#include <unordered_map>

namespace simt
{

/* The ends of statements are gone from the text (ptx_pieces). Errors: ptx_error, with a line. */
class ptx_parser
{
  public:
    ptx_parser(ptx_module &module, const std::string &text) : module_(module), text_(text) {}

    void run();

  private:
    struct pending {
        size_t index;
        int place;
    };
    struct jump {
        size_t index;
        std::vector<std::string> labels;
        int line;
    };
    struct pending_call {
        ptx_function *caller;
        size_t index;
        std::string callee;
        int line;
    };

    ptx_module &module_;
    const std::string &text_;
    ptx_lines places_;
    std::vector<std::pair<ptx_function *, pending>> sites_;
    std::vector<pending_call> calls_;

    /* The function that is being read. */
    ptx_function *function_ = nullptr;
    int depth_ = 0; /* of its blocks */
    bool has_head_ = false;
    std::vector<std::unordered_map<std::string, int32_t>> scopes_; /* registers to cells */
    std::unordered_map<std::string, size_t> params_, locals_;      /* to offsets */
    std::unordered_map<uint64_t, int32_t> constants_;
    std::unordered_map<std::string, int32_t> specials_;
    std::unordered_map<std::string, int32_t> labels_;
    std::unordered_map<std::string, std::vector<std::string>> lists_; /* .branchtargets */
    std::vector<jump> jumps_;
    std::string label_;   /* the last one, which may name a list */
    uint32_t used_ = ~0u; /* bytes of the next load */

    void take(const ptx_piece &p);
    void open(const ptx_piece &p);
    void close(const ptx_piece &p);
    void label(const ptx_piece &p);
    void directive(const ptx_piece &p);
    void pragma(const ptx_piece &p);
    static std::string last_word(const std::string &text);

    struct declared {
        std::string name, space;
        size_t bytes = 0, align = 1;
        ptx_type type;
    };

    declared declaration(const std::string &text, int line) const;
    void variable(const ptx_piece &p);
    static size_t aligned(size_t n, size_t align) { return (n + align - 1) / align * align; }

    void global(const declared &d, const std::string &initial, int line);
    void registers(const ptx_piece &p);
    int32_t new_cell(uint64_t value, int bits);

    void head(const ptx_piece &p, bool is_entry);
    void begin_function(ptx_function &f, const std::string &name, bool is_entry);
    void formal(const std::string &list, std::vector<ptx_param> &to, int line);
    void end_function();
    void link_calls();
    void instruction(const ptx_piece &p);
    void operands(ptx_instruction &i, const std::vector<std::string> &list,
                  const std::string &opcode, int line);
    void branch(ptx_instruction &i, const std::string &opcode, const std::vector<std::string> &list,
                int line);
    void call(ptx_instruction &i, const std::vector<std::string> &list, int line);
    ptx_operand operand(std::string text, int line);
    void address(ptx_operand &o, const std::string &text, int line);
    static bool number(const std::string &text, uint64_t &value);
    int32_t constant(uint64_t value);
    int32_t cell(const std::string &text, int line);
    int32_t special(const std::string &text, int line);
    int32_t symbol(const std::string &text, int line);
};

inline bool ptx_begins_with(const std::string &text, const char *with)
{
    return text.rfind(with, 0) == 0;
}

} // namespace simt

#endif
