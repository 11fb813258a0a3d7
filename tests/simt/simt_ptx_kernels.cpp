/* From a kernel's address in this program to the .entry that nvcc made of the same source. Both
 * compilers mangle names alike, but for the name of the unnamed namespace, which is cut off:
 *   host  _ZN12_GLOBAL__N_111ring_kernelEPfPKfi
 *   PTX   _ZN48_GLOBAL__N__a466aa7c_15_copy_kernels_cu_321f8bf911ring_kernelEPfPKfi */
#include "simt_ptx_code.h"

#include "simt_state.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <sstream>
#include <sys/auxv.h>

namespace simt
{
namespace
{

/* The name without its unnamed namespace, if it has one. */
std::string plain_name(const std::string &mangled)
{
    if (mangled.compare(0, 3, "_ZN") != 0) return mangled;
    char *end;
    const size_t n = strtoull(mangled.c_str() + 3, &end, 10);
    const size_t at = (size_t)(end - mangled.c_str());
    if (mangled.compare(at, 10, "_GLOBAL__N") != 0 || at + n > mangled.size()) return mangled;
    return mangled.substr(at + n);
}

std::string file_text(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

template <class T> const T *at_offset(const std::string &file, uint64_t offset)
{
    return reinterpret_cast<const T *>(file.data() + offset);
}

/* Functions of this program by address, from its own symbol table. */
std::map<uintptr_t, std::string> functions_of_program()
{
    std::map<uintptr_t, std::string> all;
    const std::string file = file_text("/proc/self/exe");
    const auto *head = at_offset<Elf64_Ehdr>(file, 0);
    const auto *sections = at_offset<Elf64_Shdr>(file, head->e_shoff);
    const uintptr_t base = getauxval(AT_ENTRY) - head->e_entry; /* of a PIE */
    for (int s = 0; s < head->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const auto *symbols = at_offset<Elf64_Sym>(file, sections[s].sh_offset);
        const char *names = file.data() + sections[sections[s].sh_link].sh_offset;
        for (size_t i = 0; i < sections[s].sh_size / sizeof symbols[0]; i++)
            if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_value)
                all[base + symbols[i].st_value] = names + symbols[i].st_name;
    }
    return all;
}

/* Files are parsed when a kernel of theirs is launched first, since all kernels of the library are
 * a lot of PTX; at once with PKV_PTX_ALL, so that one test sees whether all of it is understood. */
struct library {
    struct file {
        std::string path, text;
        std::shared_ptr<const ptx_module> module; /* once parsed */
    };
    struct entry {
        size_t file;
        std::string name;
    };
    std::vector<file> files;
    std::map<std::string, entry> entries; /* by plain name */
    std::map<uintptr_t, std::string> functions;
    std::string error;

    library()
    {
        const char *list = getenv("PKV_PTX");
        std::istringstream paths(list ? list : "");
        if (!list) error = "the variable PKV_PTX names no files of PTX";
        for (std::string path; error.empty() && std::getline(paths, path, ':');) add(path);
        for (size_t i = 0; error.empty() && getenv("PKV_PTX_ALL") && i < files.size(); i++)
            parse(files[i]);
        functions = functions_of_program();
    }

    void add(const std::string &path)
    {
        static const std::string mark = ".entry ";
        files.push_back({ path, file_text(path.c_str()), nullptr });
        const std::string &text = files.back().text;
        if (text.empty()) error = path + ": cannot be read, or is empty";
        for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
            at += mark.size();
            const std::string name = text.substr(at, text.find_first_of("( \t\n", at) - at);
            entries[plain_name(name)] = { files.size() - 1, name };
        }
    }

    void parse(file &f)
    {
        if (f.module) return;
        f.module = ptx_parse(f.path.c_str(), f.text, error);
        f.text.clear();
    }
};

library &all()
{
    static library the;
    return the;
}

int refuse(const std::string &why)
{
    snprintf(m.error, sizeof m.error, "launch: %s", why.c_str());
    m.failed = true;
    return 1;
}

} // namespace

int ptx_launch(const void *kernel, const launch_shape &shape, const void *params, size_t bytes)
{
    if (!all().error.empty()) return refuse(all().error);
    const auto function = all().functions.find(reinterpret_cast<uintptr_t>(kernel));
    if (function == all().functions.end()) return refuse("no symbol for the kernel: stripped?");
    const auto entry = all().entries.find(plain_name(function->second));
    if (entry == all().entries.end()) return refuse("no PTX for " + function->second);
    library::file &file = all().files[entry->second.file];
    all().parse(file);
    if (!all().error.empty()) return refuse(all().error);
    const ptx_module &module = *file.module;
    const std::string &name = entry->second.name;
    if (!stream_captures()) return ptx_run(module, name, shape, kernel, params, bytes);
    stream_records(shape, bytes);
    const char *from = static_cast<const char *>(params);
    const std::vector<char> copy(from, from + bytes);
    stream_adds([&module, &name, shape, kernel, copy] {
        return ptx_run(module, name, shape, kernel, copy.data(), copy.size());
    });
    return 0;
}

} // namespace simt
