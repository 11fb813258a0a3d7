/* Which line of the source an instruction of PTX comes from. */
#ifndef SIMT_PTX_LINES_H
#define SIMT_PTX_LINES_H

#include "simt_int.h"

#include <map>
#include <string>
#include <vector>

namespace simt
{

/* A name that lives as long as the program, since reports and counters keep it. */
const char *ptx_kept(const std::string &name);

/* `.loc file line column[, function_name x, inlined_at file line column]`. The callee's place comes
 * with that of the call, which may be inlined itself; the last .loc that gave it says where. */
class ptx_lines
{
  public:
    void file(const std::string &text, int line);
    void loc(const std::string &text);
    void begin_function() { chain_.clear(); }

    /* What holds now, for resolve(), or -1: files come at the end of the text. */
    int now();

    /* The innermost place in a kernel: not in the toolkit's headers, nor in those between it and
     * us. */
    site resolve(int id) const;

  private:
    struct spot {
        int file, line, column;
        bool operator<(const spot &o) const;
        bool operator==(const spot &o) const;
    };
    std::map<int, const char *> files_;
    std::vector<spot> chain_;                 /* innermost first */
    std::map<spot, std::vector<spot>> calls_; /* what a place was inlined into */
    std::vector<std::vector<spot>> all_;
};

} // namespace simt

#endif
