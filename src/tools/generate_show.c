/* What is printed when: text of the only request as it comes, its samples one after the other; JSON
 * lines in the order of the requests, each as soon as all before it are out; events at once. */
#include "generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool generate_prints_text(const generate_options *o)
{
    return !o->json && !o->requests;
}

static void put(generate_run *run, const char *text)
{
    generate_sink_put(&run->sink, text, strlen(text));
}

/* ---------------------------------------------------------------- text */

/* Several samples have a line above each; the only one is its text and nothing else. */
static void begin_sample(generate_run *run, const generate_request *r, const generate_sample *s)
{
    char line[64];
    run->show_begun = true;
    if (isnan(s->score)) snprintf(line, sizeof(line), "--- sample %d\n", run->show_sample);
    else snprintf(line, sizeof(line), "--- beam %d, score %.6f\n", run->show_sample, s->score);
    if (r->answer.n_samples > 1) put(run, line);
    if (!run->opts->echo) return;
    if (r->text) {
        generate_sink_put(&run->sink, r->text, r->n_text);
        return;
    }
    for (int32_t k = 0; k < r->n_ids; k++) {
        snprintf(line, sizeof(line), "%d ", r->ids[k]);
        put(run, line);
    }
}

static void end_sample(generate_run *run, const generate_request *r, const generate_sample *s)
{
    const bool newline = s->n_text > 0 && s->text[s->n_text - 1] == '\n';
    if (!newline && (r->answer.n_samples > 1 || isatty(fileno(run->sink.file)))) put(run, "\n");
    run->show_sample++;
    run->show_bytes = 0;
    run->show_begun = false;
}

static void show_text(generate_run *run, const generate_request *r)
{
    while (run->show_sample < r->answer.n_samples) {
        const generate_sample *s = &r->answer.samples[run->show_sample];
        const bool ended = s->finish != PKV_FINISH_NONE;
        if (r->req.beams >= 2 && !ended)
            break; /* the score, which comes with the end, goes first */
        if (!run->show_begun) begin_sample(run, r, s);
        if (s->n_text > run->show_bytes)
            generate_sink_put(&run->sink, s->text + run->show_bytes, s->n_text - run->show_bytes);
        run->show_bytes = s->n_text;
        if (!ended) break;
        end_sample(run, r, s);
    }
    if (run->show_sample == r->answer.n_samples) run->n_shown = 1;
    generate_sink_flush(&run->sink);
}

/* ---------------------------------------------------------------- JSON */

static void put_json(generate_run *run, char *text)
{
    run->no_memory |= text == NULL;
    if (!text) return;
    put(run, text);
    put(run, "\n");
    free(text);
}

static void show_answers(generate_run *run)
{
    for (; run->n_shown < run->rs->n; run->n_shown++) {
        const generate_request *r = &run->rs->list[run->n_shown];
        if (!r->answer.done) break;
        put_json(run, r->line > 0 ? generate_json_line(run, r) : generate_json_document(run, r));
    }
    generate_sink_flush(&run->sink);
}

void generate_show(generate_run *run, const generate_request *r, const pkv_token_event *event)
{
    if (generate_prints_text(run->opts)) {
        show_text(run, r);
        return;
    }
    if (run->opts->stream) {
        put_json(run, generate_json_event(r, event));
        generate_sink_flush(&run->sink);
    }
    if (event->result) show_answers(run);
}

void generate_show_end(generate_run *run)
{
    if (!generate_prints_text(run->opts)) show_answers(run);
}
