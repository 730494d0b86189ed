/* run_ended.c - a run that is resumed when nothing of it is left to do: what it ended with, from its record. */
#include "job/run/run_internal.h"

#include "base/json.h"
#include "job/run/run_report.h"

#include <stdio.h>

/* The evaluations that the log holds: the first, that of the step that was saved, and in last the last. */
static void take_log(rt_evidence *v, rt_eval_result *last, const char *path)
{
    rt_eval_result one;
    FILE *f = fopen(path, "re");
    for (json_t *j; f && (j = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)); json_decref(j)) {
        rt_evidence_take_line(v, j);
        if (rt_eval_from_line(j, &one)) *last = one;
    }
    if (f) fclose(f);
}

/* The run in a folder has ended: its manifest says so with the right checksum, and names its control. A damaged one has
 * not. */
static int read_end(rt_run_summary *out, rt_evidence *v, const char *folder, bool control, rt_arena *a, rt_err *e)
{
    json_t *j = NULL;
    char *path = rt_path_join(a, folder, "run/manifest.json"), *log = rt_path_join(a, folder, "run/metrics.jsonl");
    if (!path || !log) return rt_no_memory(e, "the record of a run");
    *out = (rt_run_summary){ 0 };
    if (rt_path_exists(path) && rt_checked_json_read(&j, path, NULL) >= 0 &&
        json_is_true(json_object_get(j, "finished")) && (!control || json_object_get(j, RT_MANIFEST_CONTROL)) &&
        rt_evidence_from_json(v, json_object_get(j, "measured"), NULL) >= 0 &&
        rt_hash_from_json(json_object_get(j, "hash"), &out->checksum)) {
        out->ended = true;
        take_log(v, &out->after, log);
        out->before = v->first;
        out->saved = v->saved;
        out->logged = v->logged;
        out->saved_step = v->saved_step;
        out->is_best = json_is_true(json_object_get(json_object_get(j, "output"), "best"));
        out->stopped_early = v->stopped_of != 0;
        out->difference = v->difference;
    }
    json_decref(j);
    return RT_OK;
}

/* Whoever removed files of the model gets them anew. */
static bool can_open(const rt_run *r)
{
    rt_model_file *m = NULL;
    bool opened = rt_run_has_root(r) && rt_manifest_output(&m, r->out, r->settings->lora_rank > 0, NULL) >= 0;
    rt_model_file_close(m);
    return opened;
}

int rt_run_look_ended(rt_run *r, rt_err *e)
{
    int rc;
    rt_run_summary *s = rt_arena_alloc(&r->arena, sizeof *s), control;
    rt_evidence *v = rt_arena_alloc(&r->arena, sizeof *v);
    char *folder = rt_control_of(&r->arena, r->out);
    if (!s || !v || !folder) RT_TRY(rt_no_memory(e, "the record of a run"));
    RT_TRY(read_end(s, v, r->out, r->settings->control, &r->arena, e));
    if (!s->ended || !can_open(r)) goto out;
    r->loop.state.step = v->steps;
    r->resolved.steps = rt_evidence_steps_meant(v);
    r->resolved.lora.rank = (uint32_t)r->settings->lora_rank;
    if (r->settings->control) {
        RT_TRY(read_end(&control, v, folder, false, &r->arena, e));
        if (!control.ended) goto out;
        rt_run_clean_control(r); /* it is not opened any more */
        s->control_after = control.after;
        s->control_saved = control.saved;
    }
    if (!rt_path_exists(r->report_path)) RT_TRY(rt_run_write_report(r, e)); /* it is written last of all */
    r->ended = s;
out:
    return rc;
}
