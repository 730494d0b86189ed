/* run_report.c - see run_report.h. */
#include "job/run/run_report.h"

#include "job/run/run_internal.h"
#include "report/model_card.h"

#include <sys/stat.h>

int rt_control_report(rt_report_run **out, const char *folder, rt_err *e)
{
    int rc = RT_OK;
    rt_arena a = { 0 };
    char *root = rt_path_join(&a, folder, ".."), *path = root ? rt_control_of(&a, root) : NULL;
    char *begun = path ? rt_path_join(&a, path, "run/metrics.jsonl") : NULL;
    *out = NULL;
    if (!begun) RT_TRY(rt_no_memory(e, "a path"));
    if (rt_path_exists(begun)) RT_TRY(rt_report_run_open(out, path, e));
out:
    rt_arena_free(&a);
    return rc;
}

/* OUT/.gitignore: git, and hubs of models, which go by it when a folder is uploaded, take the model alone. One of
 * somebody's stays. */
static int write_ignored(rt_run *r, rt_err *e)
{
    static const char text[] = "/run/\n/merged/\n";
    char *path = rt_path_join(&r->arena, r->out, ".gitignore");
    if (!path) return rt_no_memory(e, "a path");
    struct stat there; /* a link, too, wherever it leads */
    return lstat(path, &there) == 0 ? RT_OK : rt_file_write(path, text, sizeof text - 1, e);
}

int rt_run_write_card(rt_run *r, const rt_run_summary *s, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    const rt_inputs *in = r->in;
    const rt_resolved *v = &r->resolved;
    rt_card c = { .student = in->student->name,
                  .teacher = in->teacher ? in->teacher->name : NULL,
                  .hub = in->student->hub,
                  .from_random = in->student->config.random_init,
                  .tokenizer = r->text.tokenizer_json.data != NULL,
                  .chat = r->text.chat_template.data != NULL,
                  .version = r->opts->version,
                  .before = s->before,
                  .saved = s->saved,
                  .saved_step = s->saved_step,
                  .is_best = s->is_best,
                  .tokens = r->loop.state.tokens,
                  .trained = r->loop.state.trained,
                  .settings = r->settings,
                  .steps = v->steps,
                  .warmup = v->schedule.warmup,
                  .beta1 = v->beta1,
                  .beta2 = v->beta2 };
    rt_model_card(&text, &c);
    if (text.failed) RT_TRY(rt_no_memory(e, "the model card"));
    RT_TRY(rt_run_put_card(r, &text, e));
    RT_TRY(write_ignored(r, e));
out:
    rt_str_free(&text);
    return rc;
}

int rt_run_write_report(rt_run *r, rt_err *e)
{
    int rc;
    rt_report_run *runs[2] = { 0 };
    RT_TRY(rt_report_run_open(&runs[0], r->run, e));
    RT_TRY(rt_control_report(&runs[1], r->run, e));
    RT_TRY(rt_report_write(r->report_path, runs, runs[1] ? 2 : 1, e));
out:
    rt_report_run_close(runs[0]);
    rt_report_run_close(runs[1]);
    return rc;
}
