/* run_report.c - see run_report.h. */
#include "job/run/run_report.h"

#include "job/run/run_internal.h"
#include "report/model_card.h"

#include <string.h>
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

/* ---- the card ---- */

/* A source as strangers may read of it: a path says nothing to them. */
static const char *public_name(const rt_rows_source *s, bool hub)
{
    const char *base = rt_path_base(s->name);
    return hub ? s->name : *base && strcmp(base, ".") != 0 && strcmp(base, "..") != 0 ? base : "data";
}

static int list_sources(rt_run *r, const rt_rows_source *list, const bool *hub, uint32_t count,
                        const rt_card_source **out, rt_err *e)
{
    rt_card_source *all = rt_arena_alloc(&r->arena, count * sizeof *all + 1);
    if (!all) return rt_no_memory(e, "the model card");
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (rt_card_source){ .name = public_name(&list[i], hub[i]),
                                   .hub = hub[i],
                                   .weight = list[i].weight > 0 ? list[i].weight : 1 };
        for (uint32_t k = 0; k < list[i].count; k++) all[i].records += rt_shard_about(list[i].shards[k])->records;
    }
    *out = all;
    return RT_OK;
}

/* The names of the parts, which begin with that of a source where there are several. */
static int name_parts(rt_run *r, rt_card *c, rt_err *e)
{
    const rt_inputs *in = r->in;
    const rt_rows_source *list = in->eval_count ? in->eval_sources : in->train_sources;
    const bool *hub = in->eval_count ? in->eval_hub : in->train_hub;
    uint32_t count = in->eval_count ? in->eval_count : in->train_count;
    for (uint32_t i = 0; i < c->saved.part_count; i++) {
        const char *name = c->saved.parts[i].name;
        const char *cut = strlen(name) + 1 == RT_EVAL_NAME ? rt_path_base(name) : name; /* its beginning is not there */
        c->part_names[i] = cut;
        for (uint32_t k = 0; k < count && cut == name && count > 1; k++) {
            size_t n = strlen(list[k].name);
            if (strncmp(name, list[k].name, n) != 0 || (name[n] && name[n] != ':')) continue;
            c->part_names[i] = rt_arena_printf(&r->arena, "%s%s", public_name(&list[k], hub[k]), name + n);
            if (!c->part_names[i]) return rt_no_memory(e, "the model card");
        }
    }
    return RT_OK;
}

/* The word behind "license:" in the front matter of a card; null: there is none. */
static const char *license_in(rt_arena *a, const char *card)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    if (strncmp(card, "---\n", 4) != 0) return NULL;
    for (const char *line = card + 3; line && strncmp(++line, "---", 3) != 0; line = strchr(line, '\n')) {
        if (strncmp(line, "license:", 8) != 0) continue;
        const char *at = line + 8 + strspn(line + 8, " '\"");
        size_t n = strspn(at, letters);
        return n ? rt_arena_printf(a, "%.*s", (int)n, at) : NULL;
    }
    return NULL;
}

/* As the student's own card names it. */
static const char *license_of(rt_run *r)
{
    enum { MOST = 1 << 20 };
    rt_str card = { 0 };
    const char *folder = r->in->student->path, *found = NULL;
    char *path = rt_path_is_dir(folder) ? rt_path_join(&r->arena, folder, "README.md") : NULL;
    if (path && rt_path_exists(path) && rt_file_read(path, MOST, &card, NULL) >= 0 && card.data)
        found = license_in(&r->arena, card.data);
    rt_str_free(&card);
    return found;
}

/* Of several teachers; else none. */
static int card_teachers(rt_run *r, rt_card_teacher *out, rt_err *e)
{
    for (uint32_t i = 0; i < r->in->teachers.count; i++) {
        rt_str share = { 0 };
        rt_inputs_shares(r->in, i, &share);
        const char *copy = share.data && !share.failed ? rt_arena_strdup(&r->arena, share.data) : NULL;
        rt_str_free(&share);
        if (!copy) return rt_no_memory(e, "the model card");
        out[i] = (rt_card_teacher){ rt_inputs_teacher(r->in, i)->name, copy };
    }
    return RT_OK;
}

int rt_run_write_card(rt_run *r, const rt_run_summary *s, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    const rt_inputs *in = r->in;
    const rt_resolved *v = &r->resolved;
    rt_card_teacher teachers[RT_TEACHERS_MOST];
    rt_card c = { .student = in->student->name,
                  .teacher = in->teacher ? in->teacher->name : NULL,
                  .teachers = teachers,
                  .teacher_count = in->teachers.count > 1 ? in->teachers.count : 0,
                  .hub = in->student->hub,
                  .license = license_of(r),
                  .from_random = in->student->config.random_init,
                  .tokenizer = r->text.tokenizer_json.data != NULL,
                  .chat = r->text.chat_template.data != NULL,
                  .version = r->opts->version,
                  .data_count = in->train_count,
                  .eval_count = in->eval_count,
                  .held = in->counted.held,
                  .copies = in->counted.copies,
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
    RT_TRY(list_sources(r, in->train_sources, in->train_hub, in->train_count, &c.data, e));
    RT_TRY(list_sources(r, in->eval_sources, in->eval_hub, in->eval_count, &c.eval, e));
    RT_TRY(name_parts(r, &c, e));
    RT_TRY(card_teachers(r, teachers, e));
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
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_report_write(r->report_path, runs, runs[1] ? 2 : 1, e));
out:
    rt_report_run_close(runs[0]);
    rt_report_run_close(runs[1]);
    return rc;
}
