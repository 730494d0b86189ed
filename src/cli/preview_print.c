/* preview_print.c - the preview of a run on the screen: objective, data, overlap, samples with their mask. */
#include "cli/cli.h"
#include "job/preview.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "1 record", "12 records". */
static void print_count(const char *before, uint64_t n, const char *one, const char *many)
{
    rt_put("%s%" PRIu64 " %s", before, n, n == 1 ? one : many);
}

void rt_print_fate(const rt_rows_count *c)
{
    uint64_t dropped = c->too_long + c->no_target;
    if (c->split) print_count(", ", c->split, "text split", "texts split");
    if (c->cut) print_count(", ", c->cut, "conversation shortened", "conversations shortened");
    if (dropped) print_count(", ", dropped, "record dropped", "records dropped");
    if (c->too_long && c->no_target)
        rt_put(" (%" PRIu64 " too long, %" PRIu64 " with nothing to train)", c->too_long, c->no_target);
    else if (dropped)
        rt_put(" (%s)", c->too_long ? "too long" : "nothing to train in them");
}

static void print_data(const rt_preview *p, uint32_t seq_len)
{
    const rt_rows_count *c = &p->data;
    print_count("data      ", c->records, "record", "records");
    rt_put(", %" PRIu64 " row%s of %u tokens a pass", p->rows, p->rows == 1 ? "" : "s", seq_len);
    rt_print_fate(c);
    rt_put("\ntokens    %" PRIu64 " trained, %" PRIu64 " masked", c->trained, c->tokens - c->trained);
    if (c->lost)
        rt_put("; %.1f %% of the targets are lost in what is cut off or dropped",
               100.0 * (double)c->lost / (double)c->targets);
    rt_put("\n");
}

/* Records, and of several sources those of each; of one text there are rows alone. */
static void print_held(const rt_preview *p)
{
    rt_put("held out  ");
    if (p->held_all && p->held_records < p->held_all) rt_put("%" PRIu64 " of ", p->held_records);
    if (p->held_all) print_count("", p->held_all, "record", "records");
    for (uint32_t i = 0; i < p->held_source_count; i++)
        rt_put("%s%" PRIu64 " of %s%s", i ? ", " : " (", p->held_sources[i].records, p->held_sources[i].name,
               i + 1 == p->held_source_count ? ")" : "");
    print_count(p->held_all ? ", " : "", p->held_rows, "row", "rows");
    rt_put(", %" PRIu64 " positions measured", p->held_positions);
    rt_print_fate(&p->eval);
    if (p->held_copies)
        rt_put("; %" PRIu64 " %s left out of training", p->held_copies,
               p->held_copies == 1 ? "copy of them is" : "copies of them are");
    rt_put("\n");
}

static void print_overlap(const rt_preview *p)
{
    const rt_overlap_result *o = &p->overlap;
    double share = o->grams ? 100.0 * (double)o->shared / (double)o->grams : 0.0;
    if (!o->grams) {
        rt_say("overlap", "not measured: no held-out text has %d tokens", RT_OVERLAP_N);
        return;
    }
    rt_str s = { 0 };
    rt_str_printf(&s,
                  "%s%.1f %% of held-out %d-grams are in the training text too (in %" PRIu64 " of %" PRIu64 " texts)",
                  p->rows_read < p->rows_all ? "at least " : "", share, RT_OVERLAP_N, o->touched, o->texts);
    if (o->one_in > 1) rt_str_printf(&s, ", from one %d-gram in %u", RT_OVERLAP_N, o->one_in);
    if (p->rows_read < p->rows_all)
        rt_str_printf(&s, ", measured on %.2g %% of the training rows",
                      100.0 * (double)p->rows_read / (double)p->rows_all);
    rt_say("overlap", "%s", s.data ? s.data : "");
    rt_str_free(&s);
    if (rt_preview_overlap_high(p))
        rt_say("warning", "the held-out loss will look better than it is: remove repeated records, or give --eval-data "
                          "with other text");
}

static void put_sample(rt_str *out, const rt_preview_sample *s, bool colour)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const rt_preview_piece *p = &s->pieces[i];
        rt_str_append(out, !colour ? p->trained ? "[[" : "" : p->trained ? "\x1b[1m" : "\x1b[2m");
        rt_visible_append(out, p->text, strlen(p->text), true);
        rt_str_append(out, colour ? "\x1b[0m" : p->trained ? "]]" : "");
    }
    if (s->left) rt_str_printf(out, " ... and %u tokens more", s->left);
}

static void print_samples(const rt_preview *p, bool colour)
{
    for (uint32_t i = 0; i < p->sample_count; i++) {
        rt_str text = { 0 };
        put_sample(&text, &p->samples[i], colour);
        rt_put_coloured("sample %u  %s\n", i + 1, text.data ? text.data : "");
        rt_str_free(&text);
    }
    if (p->sample_count)
        rt_put_coloured("          %s is trained, the rest is read only\n",
                        colour ? "\x1b[1mbright\x1b[0m" : "[[text in these]]");
}

void rt_preview_print(const rt_run *r, bool colour)
{
    rt_err e = { 0 };
    rt_preview *p = NULL;
    if (rt_preview_new(&p, r, &e) < 0) {
        rt_say("note", "no preview: %s", e.text);
        return;
    }
    rt_say("objective", "%s", p->objective);
    print_data(p, rt_run_resolved(r)->seq_len);
    print_held(p);
    if (p->looked) print_overlap(p);
    print_samples(p, colour);
    rt_preview_free(p);
}
