/* inputs_teachers.c - the teachers of a run besides the first: opened, of the same ids, and asked about their data.
 *
 * Every one is a model whose layers run in the step, and all of them mean the same by every id: the mixture is of their
 * probabilities, id by id. Rows are tokenized once, with the template of the first that has one. */
#include "job/prepare/inputs_internal.h"

#include "job/prepare/identity.h"
#include "train/follow.h"

#include <string.h>

/* ---- opening ---- */

static int refuse_caches(const rt_teachers *t, rt_err *e)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (rt_cache_is(t->list[i].model))
            return rt_fail(e, RT_INVALID,
                           "--teacher %s is a cache, and a cache cannot be one of several teachers; give the model "
                           "that it was made with, or the cache as the only teacher",
                           t->list[i].model);
    return RT_OK;
}

/* Where the student has no tokenizer, the two teachers are all that can be compared. */
static int check_tokenizers(const rt_inputs *in, const rt_inputs_other *t, rt_err *e)
{
    rt_pair pair = { 0 };
    if (in->student_text || !in->teacher_text || !t->text) return RT_OK;
    int rc = rt_pair_check(&pair, in->teacher_text->tokenizer, in->teacher->config.vocab, t->text->tokenizer,
                           t->model->config.vocab, 0, e);
    rt_pair_free(&pair);
    if (rc == RT_INVALID)
        rt_err_context(e, "--teacher %s beside %s, the first teacher", t->model->name, in->teacher->name);
    return rc;
}

/* Whether a teacher means by every id what the first one does, as far as the student has it. */
static int check_ids(rt_inputs *in, const rt_inputs_other *t, const rt_settings *s, rt_err *e)
{
    int rc;
    rt_pair pair = { 0 };
    const char *name = t->model->name;
    rc = rt_pair_check(&pair, in->student_text ? in->student_text->tokenizer : NULL, in->student->config.vocab,
                       t->text ? t->text->tokenizer : NULL, t->model->config.vocab, (uint32_t)s->vocab, e);
    if (rc == RT_INVALID)
        rt_err_context(e, "--teacher %s shares its vocabulary neither with the student nor with %s, the first teacher",
                       name, in->teacher->name);
    RT_TRY(rc);
    if (!rt_hash_equal(rt_pair_hash(&pair), rt_pair_hash(&in->pair)))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "teachers %s and %s have different vocabularies (they share %u and %u ids with the student, not "
                       "the same ones); a mixture needs teachers with one tokenizer",
                       in->teacher->name, name, in->pair.common, pair.common));
    in->pair.masked = in->pair.masked || pair.masked;
    in->pair.measured = in->pair.measured && pair.measured;
out:
    rt_pair_free(&pair);
    return rc;
}

static void note_template(rt_inputs *in, const rt_model_file *m)
{
    rt_span a = in->teacher->text.chat_template, b = m->text.chat_template;
    if (!b.data || (a.data && a.len == b.len && memcmp(a.data, b.data, a.len) == 0)) return;
    rt_note(&in->notes, "the chat template of %s differs from that of %s, which is used for all teachers", m->name,
            in->teacher->name);
}

int rt_inputs_open_others(rt_inputs *in, const rt_settings *s, const rt_inputs_opts *o, const rt_hub_env *env,
                          rt_err *e)
{
    int rc;
    RT_TRY(refuse_caches(&in->teachers, e));
    for (uint32_t i = 1; i < in->teachers.count; i++) {
        rt_inputs_other *t = &in->others[i - 1];
        RT_TRY(rt_inputs_open_model(in, in->teachers.list[i].model, "teacher", NULL, env, &t->model, &t->text, e));
        RT_TRY(check_ids(in, t, s, e));
        RT_TRY(check_tokenizers(in, t, e));
        rc = rt_inputs_refuse_same(in, t->model, s, o->pool, e);
        if (rc == RT_INVALID) rt_err_context(e, "--teacher %s", t->model->name);
        RT_TRY(rc);
        note_template(in, t->model);
    }
out:
    return rc;
}

/* Whether a teacher has all of the data that it is asked about for itself. */
static bool is_alone(const rt_teachers *t, uint32_t teacher)
{
    for (uint32_t g = 0; g < t->group_count; g++)
        if ((t->served[g] >> teacher & 1) && t->served[g] != 1u << teacher) return false;
    return true;
}

static void note_weights(rt_inputs *in)
{
    const rt_teachers *t = &in->teachers;
    for (uint32_t i = 0; i < t->count; i++)
        if (t->list[i].weight != 1 && is_alone(t, i))
            rt_note(&in->notes, "--teacher %s: weight=%.4g has no effect, since it is the only teacher of its data",
                    t->list[i].model, t->list[i].weight);
}

int rt_inputs_assign(rt_inputs *in, rt_err *e)
{
    int rc;
    uint32_t n = in->train_count + in->eval_count;
    const char **names = rt_arena_alloc(&in->arena, n * sizeof *names + 1);
    uint32_t *groups = rt_arena_alloc(&in->arena, n * sizeof *groups + 1);
    if (!names || !groups) RT_TRY(rt_no_memory(e, "the data's teachers"));
    for (uint32_t i = 0; i < n; i++)
        names[i] = i < in->train_count ? in->train_sources[i].name : in->eval_sources[i - in->train_count].name;
    RT_TRY(rt_teachers_assign(&in->teachers, names, n, in->train_count, groups, e));
    for (uint32_t i = 0; i < n; i++)
        *(i < in->train_count ? &in->train_sources[i].group : &in->eval_sources[i - in->train_count].group) = groups[i];
    note_weights(in);
out:
    return rc;
}

/* ---- for programs ---- */

int rt_inputs_others(rt_step_other **out, const rt_inputs *in, rt_teacher_weights w, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    *out = NULL;
    if (in->teachers.count < 2) return RT_OK;
    rt_step_other *list = rt_arena_alloc(a, (in->teachers.count - 1) * sizeof *list);
    if (!list) RT_TRY(rt_no_memory(e, "teachers"));
    for (uint32_t i = 0; i + 1 < in->teachers.count; i++) {
        rt_dtype *dtypes;
        const rt_model_file *m = in->others[i].model;
        RT_TRY(rt_inputs_dtypes(&dtypes, m, a, e));
        rt_weights_dtypes(dtypes, dtypes, &m->config, w);
        list[i] = (rt_step_other){ &m->config, dtypes, rt_weights_coded(&m->config, w) };
    }
    *out = list;
out:
    return rc;
}

int rt_inputs_load(const rt_inputs *in, rt_trainer *t, uint64_t seed, rt_err *e)
{
    int rc;
    if (t->peers && t->peers->rank == 0) rt_word_say(t->peers, &(rt_word){ .kind = RT_WORD_LOAD, .seed = seed });
    RT_TRY(rt_trainer_load(t, in->student, in->teacher, in->pair.mask, seed, e));
    for (uint32_t i = 0; i < t->plan->opts.other_count; i++)
        RT_TRY(rt_trainer_load_other(t, i, in->others[i].model, e));
out:
    return rc;
}

/* ---- for a person, and for the record ---- */

void rt_inputs_shares(const rt_inputs *in, uint32_t i, rt_str *out)
{
    const rt_teachers *t = &in->teachers;
    if (t->group_count < 2) {
        rt_str_printf(out, "%.4g", t->group_count ? rt_teachers_share(t, 0, i) : 1.0);
        return;
    }
    size_t before = out->len;
    for (uint32_t n = 0; n < in->train_count; n++) {
        double share = rt_teachers_share(t, in->train_sources[n].group, i);
        if (share > 0)
            rt_str_printf(out, "%s%.4g of %s", out->len > before ? ", " : "", share,
                          rt_path_base(in->train_sources[n].name));
    }
}

int rt_inputs_other_identity(json_t **out, const rt_inputs *in, uint32_t teacher, rt_pool *pool, rt_err *e)
{
    int rc;
    const rt_teacher_spec *spec = &in->teachers.list[teacher];
    json_t *j = NULL, *data = json_array();
    RT_TRY(rt_identity_new(&j, rt_inputs_teacher(in, teacher), pool, e));
    bool kept = data && json_object_set_new(j, "weight", json_real(spec->weight)) == 0;
    for (uint32_t i = 0; kept && i < spec->data_count; i++)
        kept = json_array_append_new(data, json_string(rt_path_base(spec->data[i]))) == 0;
    if (kept && spec->data_count) kept = json_object_set(j, "data", data) == 0;
    if (kept && spec->prompt)
        kept = json_object_set_new(j, "prompt", rt_hash_to_json(rt_prompt_hash(&in->prompts[teacher]))) == 0;
    if (!kept) RT_TRY(rt_no_memory(e, "the identity of a teacher"));
    *out = j;
    j = NULL;
out:
    json_decref(j);
    json_decref(data);
    return rc;
}

int rt_inputs_others_identity(json_t **out, const rt_inputs *in, rt_pool *pool, rt_err *e)
{
    int rc = RT_OK;
    json_t *list = NULL, *one;
    *out = NULL;
    if (in->teachers.count < 2) return RT_OK;
    if (!(list = json_array())) RT_TRY(rt_no_memory(e, "the identity of a teacher"));
    for (uint32_t i = 1; i < in->teachers.count; i++) {
        RT_TRY(rt_inputs_other_identity(&one, in, i, pool, e));
        if (json_array_append_new(list, one) != 0) RT_TRY(rt_no_memory(e, "the identity of a teacher"));
    }
    *out = list;
    list = NULL;
out:
    json_decref(list);
    return rc;
}
