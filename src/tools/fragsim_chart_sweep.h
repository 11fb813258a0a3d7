/* Charts of a sweep: one axis lies on x, a line for each policy and value of the other axes. */
#ifndef PKV_TOOLS_FRAGSIM_CHART_SWEEP_H
#define PKV_TOOLS_FRAGSIM_CHART_SWEEP_H

#include "fragsim_chart.h"
#include "fragsim_sweep.h"

/* More lines nobody can tell apart. */
#define FRAGSIM_MAX_SWEEP_LINES 24
#define FRAGSIM_SWEEP_LABEL_BYTES 160

typedef struct fragsim_sweep_line {
    int policy;
    int first_point; /* with the first value of the x axis */
    char label[FRAGSIM_SWEEP_LABEL_BYTES];
} fragsim_sweep_line;

typedef struct fragsim_sweep_lines {
    int axis;    /* on x: the one with most values, a rate before others */
    int n_x;     /* its values */
    int stride;  /* points between two of them */
    bool scaled; /* they are numbers that rise, and stand at their place; else one by one */
    bool log_x;
    double x[FRAGSIM_MAX_VALUES];
    int n, n_all; /* lines shown, and all that there would be */
    fragsim_sweep_line line[FRAGSIM_MAX_SWEEP_LINES];
} fragsim_sweep_lines;

void fragsim_sweep_lines_of(const fragsim_sweep_report *report, fragsim_sweep_lines *out);

typedef enum fragsim_sweep_measure {
    FRAGSIM_SWEEP_BATCH = 0,
    FRAGSIM_SWEEP_LATENCY,
    FRAGSIM_SWEEP_WASTE,
    FRAGSIM_SWEEP_MEASURE_COUNT
} fragsim_sweep_measure;

const char *fragsim_sweep_title(fragsim_sweep_measure measure);
const char *fragsim_sweep_axis_title(fragsim_sweep_measure measure);
/* "request-rate" */
const char *fragsim_sweep_axis_name(const fragsim_axis *axis);
/* False: there is no value. */
bool fragsim_sweep_value(const fragsim_sweep_report *report, const fragsim_sweep_lines *lines,
                         fragsim_sweep_measure measure, int line, int x, double *out);

/* NULL: it has complained. */
char *fragsim_draw_sweep(const fragsim_sweep_report *report, const fragsim_sweep_lines *lines,
                         fragsim_sweep_measure measure);
char *fragsim_sweep_svg(const fragsim_sweep_report *report);
char *fragsim_sweep_html(const fragsim_sweep_report *report);

#endif
