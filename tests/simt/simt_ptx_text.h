/* The text of a PTX file as a list of pieces. */
#ifndef SIMT_PTX_TEXT_H
#define SIMT_PTX_TEXT_H

#include <stdexcept>
#include <string>
#include <vector>

namespace simt
{

struct ptx_error : std::runtime_error {
    int line;
    ptx_error(int at, const std::string &what) : std::runtime_error(what), line(at) {}
};

struct ptx_piece {
    enum { statement, label, open, close } kind;
    std::string text; /* without ; : { } at its end, blanks and comments trimmed */
    int line;         /* where it begins */
};

/* A function's head is a statement that ends before its {. Sections of debug data are left out. */
std::vector<ptx_piece> ptx_pieces(const std::string &text);

std::string ptx_trim(const std::string &text);

/* Parts between commas that stand in no bracket. */
std::vector<std::string> ptx_split_list(const std::string &text);

} // namespace simt

#endif
