/* The command inspect: what a trace contains, and what of it is used. */
#include "fragsim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int inspect_loaded(const fragsim_report *rep)
{
    fragsim_print_input(stdout, rep->input, rep->opts);
    pkv_sim_config longest = PKV_SIM_CONFIG_INIT;
    longest.pool_tokens = INT32_MAX;
    longest.max_model_len = 1 << 30;
    pkv_sim_forms forms = PKV_SIM_FORMS_INIT;
    if (pkv_sim_closed_forms(&longest, rep->input->reqs, rep->input->n, &forms) == PKV_OK)
        fprintf(stdout, "           E[out^2]/E[out] %.1f\n", forms.output_bias);
    for (int k = 0; k < rep->n_notes; k++) fprintf(stdout, "note: %s\n", rep->notes[k]);
    if (fflush(stdout) == 0 && !ferror(stdout)) return FRAGSIM_OK;
    fragsim_complain("stdout: writing failed: %s", strerror(errno));
    return FRAGSIM_ERROR;
}

int fragsim_inspect(const fragsim_options *opts)
{
    fragsim_input input;
    fragsim_report *rep = calloc(1, sizeof(*rep));
    if (!rep) {
        fragsim_complain("out of memory");
        return FRAGSIM_ERROR;
    }
    rep->opts = opts;
    rep->input = &input;
    const int code = fragsim_input_load(opts, rep, &input) ? inspect_loaded(rep) : FRAGSIM_ERROR;
    fragsim_input_free(&input);
    free(rep);
    return code;
}
