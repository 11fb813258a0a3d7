/* Runs the PTX that nvcc made of a kernel file on the emulator, in place of the kernel that the
 * compiler of the host made of it.
 *
 *   files named by PKV_PTX --> parse, once --> ptx_module --> launch: one fiber per thread
 *   kernel pointer --> its symbol in this program --> the .entry of the same name
 *
 * Loads, stores, collectives and copies are those of simt_int.h. Outside of launches only. */
#ifndef SIMT_PTX_H
#define SIMT_PTX_H

#include "simt_int.h"

#include <memory>
#include <string>

namespace simt
{

struct ptx_module;

/* What a text of PTX says. Null, and `error` names file, line and what is wrong there, if it is not
 * understood: an instruction, a modifier or a directive that is not known is an error, never
 * skipped. `name` is for reports. */
std::shared_ptr<const ptx_module> ptx_parse(const char *name, const std::string &text,
                                            std::string &error);

/* Run an .entry of the module. `params` are laid out as C lays them out, one after another, each
 * aligned to its size; their sizes must be the entry's. 0, or 1 and device_last_error(). */
int ptx_run(const ptx_module &module, const std::string &entry, const launch_shape &shape,
            const void *kernel_id, const void *params, size_t bytes);

/* The same for the kernel whose host version is at `kernel`, from the files that the environment
 * variable PKV_PTX lists, separated by colons. */
int ptx_launch(const void *kernel, const launch_shape &shape, const void *params, size_t bytes);

/* Instructions executed since the program began. */
uint64_t ptx_n_executed();

} // namespace simt

#endif
