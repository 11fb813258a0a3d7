/* pkv-info machine. */
#include "pkv_info_machine.h"

#include <stdlib.h>

#include "tool_values.h"

static bool take_level(const char *by, const char *text, pkv_isa *isa)
{
    if (pkv_isa_from_name(text, isa) == PKV_OK) return true;
    info_complain("%s wants " TOOL_LEVELS ", not '%s'", by, text);
    return false;
}

static int show(pkv_isa isa, const char *asked_by, bool json)
{
    struct info_machine *m = calloc(1, sizeof(*m));
    int status = INFO_IO;
    if (!m) info_complain("no memory");
    else if (!info_machine_read(isa, asked_by, m)) status = INFO_USAGE;
    else if (json) status = info_print_json(info_machine_json(m));
    else {
        info_machine_print(m, stdout);
        status = info_finish_output();
    }
    free(m);
    return status;
}

int info_machine(int argc, char **argv)
{
    const char *level = NULL, *by = "--isa";
    pkv_isa isa = PKV_ISA_BEST;
    bool json = false;
    int n_places = 0;
    const info_option options[] = {
        { "--isa", NULL, "LEVEL", INFO_TEXT, &level, 0, 0, NULL,
          "not above this level: " TOOL_LEVELS " (default: the variable PKV_ISA, else best)" },
        { "--json", NULL, NULL, INFO_FLAG, &json, 0, 0, NULL, "the same as one JSON object" },
    };
    const info_verb verb = { "machine [OPTION...]",
                             "What the library finds on this machine: CPU, caches, levels with the "
                             "reason why each is there or not, huge pages, libraries with the "
                             "version of Unicode that they know, and the function that each "
                             "operation uses for each type of K and V.",
                             options,
                             sizeof(options) / sizeof(options[0]),
                             0,
                             "A level that is not here is status 2." };
    const info_parsed parsed = info_parse(&verb, argc, argv, NULL, &n_places);
    if (parsed == INFO_HELPED) return info_finish_output();
    if (parsed == INFO_REFUSED) return INFO_USAGE;
    if (!level) {
        level = getenv("PKV_ISA");
        by = "PKV_ISA";
    }
    if (!level || !*level) return show(isa, NULL, json);
    return take_level(by, level, &isa) ? show(isa, by, json) : INFO_USAGE;
}
