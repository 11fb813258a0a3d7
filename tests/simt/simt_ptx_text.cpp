/* Cuts PTX into pieces. A statement ends with ; -- but the directives below with their line. A
 * brace within a statement belongs to an operand, except behind the head of a function. */
#include "simt_ptx_text.h"

#include <cctype>
#include <cstring>

namespace simt
{
namespace
{

bool begins_with(const std::string &text, const char *with)
{
    return text.compare(0, strlen(with), with) == 0;
}

bool is_line_directive(const std::string &text)
{
    static const char *const names[] = { ".version", ".target", ".address_size", ".file", ".loc" };
    for (const char *name : names)
        if (begins_with(text, name) && isspace((unsigned char)text.c_str()[strlen(name)]))
            return true;
    return false; /* .local is no .loc */
}

bool is_head(const std::string &text)
{
    return text.find(".entry") != std::string::npos || text.find(".func") != std::string::npos;
}

bool is_name(const std::string &text)
{
    for (char c : text)
        if (!isalnum((unsigned char)c) && !strchr("_$%", c)) return false;
    return !text.empty() && !isdigit((unsigned char)text[0]);
}

class cutter
{
  public:
    explicit cutter(const std::string &text) : text_(text) {}
    std::vector<ptx_piece> run();

  private:
    const std::string &text_;
    size_t at_ = 0;
    int line_ = 1, begin_ = 1;
    int depth_ = 0; /* of an operand's braces */
    std::string now_;
    std::vector<ptx_piece> pieces_;

    bool see(const char *what) const { return text_.compare(at_, strlen(what), what) == 0; }
    void push(decltype(ptx_piece::kind) kind);
    void skip_comment(const char *end);
    void skip_section();
    void brace(char c);
    void step();
};

std::vector<ptx_piece> cutter::run()
{
    while (at_ < text_.size()) step();
    if (!ptx_trim(now_).empty()) throw ptx_error(begin_, "the text ends in a statement");
    return std::move(pieces_);
}

void cutter::push(decltype(ptx_piece::kind) kind)
{
    const std::string text = ptx_trim(now_);
    if (!text.empty() || kind == ptx_piece::open || kind == ptx_piece::close)
        pieces_.push_back({ kind, text, text.empty() ? line_ : begin_ });
    now_.clear();
}

void cutter::skip_comment(const char *end)
{
    const size_t to = text_.find(end, at_);
    for (const size_t stop = to == std::string::npos ? text_.size() : to; at_ < stop; at_++)
        line_ += text_[at_] == '\n';
    if (*end != '\n' && to != std::string::npos) at_ += strlen(end);
}

void cutter::skip_section()
{
    while (at_ < text_.size() && text_[at_] != '}') line_ += text_[at_++] == '\n';
    at_++;
    now_.clear();
}

void cutter::brace(char c)
{
    const std::string before = ptx_trim(now_);
    if (c == '{' && begins_with(before, ".section")) {
        skip_section();
    } else if (c == '{' && depth_ == 0 && (before.empty() || is_head(before))) {
        if (!before.empty()) push(ptx_piece::statement);
        push(ptx_piece::open);
    } else if (c == '{') {
        depth_++;
        now_ += c;
    } else if (depth_ > 0) {
        depth_--;
        now_ += c;
    } else {
        if (!before.empty()) throw ptx_error(begin_, "a } in a statement: " + before);
        push(ptx_piece::close);
    }
}

void cutter::step()
{
    if (see("//")) return skip_comment("\n");
    if (see("/*")) return skip_comment("*/");
    const char c = text_[at_++];
    if (ptx_trim(now_).empty()) begin_ = line_;
    if (c == '\n') {
        line_++;
        if (is_line_directive(ptx_trim(now_))) push(ptx_piece::statement);
        else now_ += ' ';
    } else if (c == ';') {
        push(ptx_piece::statement);
    } else if (c == '{' || c == '}') {
        brace(c);
    } else if (c == ':' && is_name(ptx_trim(now_)) && text_[at_] != ':') {
        push(ptx_piece::label);
    } else {
        now_ += c;
    }
}

} // namespace

std::string ptx_trim(const std::string &text)
{
    const size_t from = text.find_first_not_of(" \t\r\n"), to = text.find_last_not_of(" \t\r\n");
    return from == std::string::npos ? "" : text.substr(from, to - from + 1);
}

std::vector<std::string> ptx_split_list(const std::string &text)
{
    std::vector<std::string> parts;
    std::string now;
    int depth = 0;
    for (char c : text) {
        depth += strchr("{[(", c) ? 1 : strchr("}])", c) ? -1 : 0;
        if (c == ',' && depth == 0) {
            parts.push_back(ptx_trim(now));
            now.clear();
        } else {
            now += c;
        }
    }
    if (!ptx_trim(now).empty()) parts.push_back(ptx_trim(now));
    return parts;
}

std::vector<ptx_piece> ptx_pieces(const std::string &text)
{
    return cutter(text).run();
}

} // namespace simt
