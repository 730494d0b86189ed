/* teaching.c - see teaching.h. */
#include "job/teaching.h"

#include "base/json.h"
#include "job/device.h"
#include "job/prepare/identity.h"
#include "job/prepare/teacher_folder.h"
#include "teacher/remote/wire.h"
#include "teacher/says.h"

#include <string.h>

struct rt_teaching {
    const rt_model_file *model;
    const rt_speaker *speaker;
    const rt_job_env *env;
    json_t *identity; /* null until it was asked for */
    rt_hash128 hash;  /* of it */
    /* the programs, and what they were sealed for; null: there are none yet */
    rt_says *says;
    rt_wire_question shape;
    uint32_t *mask; /* (shape.mask_words) */
};

int rt_teaching_new(rt_teaching **out, const rt_model_file *m, const rt_speaker *s, const rt_job_env *env, rt_err *e)
{
    rt_teaching *t = rt_alloc_zero(sizeof *t, 16);
    if (!t) return rt_no_memory(e, "a teacher");
    *t = (rt_teaching){ .model = m, .speaker = s, .env = env };
    *out = t;
    return RT_OK;
}

void rt_teaching_unseal(rt_teaching *t)
{
    rt_says_free(t->says);
    rt_free(t->mask);
    t->says = NULL;
    t->mask = NULL;
}

void rt_teaching_free(rt_teaching *t)
{
    if (!t) return;
    json_decref(t->identity);
    rt_free(t);
}

/* ---- what it is ---- */

static int identify(rt_teaching *t, rt_err *e)
{
    int rc = RT_OK;
    rt_pool *pool = NULL;
    json_t *about = NULL;
    if (t->identity) return RT_OK;
    RT_TRY(rt_job_pool_new(&pool, 0, e));
    RT_TRY(rt_identity_new(&t->identity, t->model, pool, e));
    about = json_pack("{s:O}", "teacher", t->identity);
    if (!about || !rt_wire_teacher_hash(about, &t->hash)) RT_TRY(rt_no_memory(e, "the identity of a teacher"));
out:
    if (rc < 0) {
        json_decref(t->identity);
        t->identity = NULL;
    }
    json_decref(about);
    rt_pool_free(pool);
    return rc;
}

static int put_folder(json_t *about, const char *folder, rt_str *out, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    char **names;
    uint32_t count = 0;
    rt_wire_file file[RT_WIRE_FILES];
    rt_str text[RT_WIRE_FILES] = { 0 };
    RT_TRY(rt_dir_list(&names, &count, &a, folder, e));
    if (count > RT_WIRE_FILES) RT_TRY(rt_fail(e, RT_INTERNAL, "a teacher has %u files", count));
    for (uint32_t i = 0; i < count; i++) {
        char *path = rt_path_join(&a, folder, names[i]);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        RT_TRY(rt_file_read(path, 2 * RT_WIRE_MOST, &text[i], e));
        file[i] = (rt_wire_file){ names[i], { text[i].data ? text[i].data : "", text[i].len } };
    }
    if (!rt_wire_put_teacher(about, file, count, out)) RT_TRY(rt_no_memory(e, "the description of a teacher"));
out:
    for (uint32_t i = 0; i < RT_WIRE_FILES; i++) rt_str_free(&text[i]);
    rt_arena_free(&a);
    return rc;
}

int rt_teaching_describe(rt_teaching *t, bool hidden, rt_str *out, rt_err *e)
{
    int rc;
    rt_dev_info info;
    rt_arena a = { 0 };
    rt_notes notes = { 0 };
    char *folder = NULL;
    json_t *about = NULL;
    rt_dev *d = rt_speaker_device(t->speaker);
    const rt_model_config *c = &t->model->config;
    RT_TRY(identify(t, e));
    RT_TRY(d->api->info(d, &info, e));
    RT_TRY(rt_dir_scratch(&folder, &a, t->env->scratch, "retort-teacher", e));
    RT_TRY(rt_teacher_folder_write(t->model, hidden, folder, &notes, e));
    about = json_pack("{s:O, s:s, s:s, s:I, s:I, s:I}", "teacher", t->identity, "made_by",
                      t->env->version ? t->env->version : "retort", "act", rt_dtype_name(rt_device_policy(d)->act),
                      "positions", (json_int_t)info.positions, "vocab", (json_int_t)c->vocab, "width",
                      (json_int_t)c->width);
    if (!about) RT_TRY(rt_no_memory(e, "the description of a teacher"));
    RT_TRY(put_folder(about, folder, out, e));
out:
    if (folder) rt_dir_remove(folder);
    json_decref(about);
    rt_arena_free(&a);
    return rc;
}

/* ---- what it says ---- */

/* Whether the programs that are there are those for this question. */
static bool fits(const rt_teaching *t, const rt_wire_question *q)
{
    const rt_wire_question *s = &t->shape;
    return t->says && s->keep == q->keep && s->B == q->B && s->T == q->T && s->n == q->n && s->held_n == q->held_n &&
           s->temperature == q->temperature && s->seed == q->seed && s->mask_words == q->mask_words &&
           (!q->mask_words || memcmp(t->mask, q->mask, q->mask_words * sizeof *q->mask) == 0);
}

static int seal(rt_teaching *t, const rt_wire_question *q, rt_err *e)
{
    static const rt_source_form forms[] = {
        [RT_KEEP_TOPK] = RT_FORM_TOPK, [RT_KEEP_DRAWS] = RT_FORM_DRAWS, [RT_KEEP_HIDDEN] = RT_FORM_HIDDEN
    };
    int rc = RT_OK;
    rt_arena a = { 0 };
    rt_dtype *dtypes;
    if (fits(t, q)) return RT_OK;
    rt_teaching_unseal(t);
    if (q->mask_words) {
        t->mask = rt_alloc(q->mask_words * sizeof *t->mask, 64);
        if (!t->mask) RT_TRY(rt_no_memory(e, "the ids that count"));
        memcpy(t->mask, q->mask, q->mask_words * sizeof *t->mask);
    }
    RT_TRY(rt_inputs_dtypes(&dtypes, t->model, &a, e));
    const rt_says_opts o = { .B = q->B,
                             .T = q->T,
                             .form = forms[q->keep],
                             .n = q->n,
                             .held_n = q->held_n,
                             .temperature = q->temperature,
                             .seed = q->seed,
                             .dtypes = dtypes,
                             .home = RT_CLASS_PARAM,
                             .vmask = t->mask };
    RT_TRY(rt_says_open(&t->says, rt_speaker_device(t->speaker), t->model, &o, NULL, e));
    t->shape = *q;
out:
    if (rc < 0) rt_teaching_unseal(t);
    rt_arena_free(&a);
    return rc;
}

static rt_says_answer list_of(const rt_wire_list *l)
{
    return (rt_says_answer){
        .id = l->id, .logp = l->logp, .rest = l->rest, .entropy = l->entropy, .target_logp = l->target_logp
    };
}

/* Of all positions those that were asked for, moved to the front. */
static int say_hidden(rt_teaching *t, const rt_wire_question *q, rt_wire_answer *a, rt_err *e)
{
    char *all = rt_alloc((size_t)q->B * q->T * a->row, 64);
    int rc = all ? rt_says_hidden(t->says, all, e) : rt_no_memory(e, "hidden states");
    for (uint32_t i = 0; rc >= 0 && i < q->count; i++)
        memcpy((char *)a->hidden + (size_t)i * a->row, all + (size_t)q->position[i] * a->row, a->row);
    rt_free(all);
    return rc;
}

static int say(rt_teaching *t, const rt_wire_question *q, rt_wire_answer *a, rt_err *e)
{
    int rc;
    const size_t N = (size_t)q->B * q->T;
    int32_t *pos = rt_alloc(N * sizeof *pos, 64);
    if (!pos) RT_TRY(rt_no_memory(e, "positions"));
    for (size_t i = 0; i < N; i++) pos[i] = (int32_t)(i % q->T) - q->start[i];
    RT_TRY(rt_says_read(t->says, q->ids, pos, q->start, e));
    const rt_says_asked asked = { q->position, q->target, q->key, q->count };
    if (a->hidden) RT_TRY(say_hidden(t, q, a, e));
    for (uint32_t i = 0; i < a->lists; i++) {
        const rt_says_answer to = list_of(&a->list[i]);
        RT_TRY(rt_says_ask(t->says, i ? RT_USE_HELD_LOSS : q->held ? RT_USE_HELD : RT_USE_TRAIN, &asked, &to, e));
    }
    if (a->lists) RT_TRY(rt_says_hear(t->says, e));
out:
    rt_free(pos);
    return rc;
}

int rt_teaching_answer(rt_teaching *t, const void *question, size_t len, rt_str *out, rt_err *e)
{
    int rc;
    rt_wire_question q;
    rt_wire_answer a = { 0 };
    const rt_model_config *c = &t->model->config;
    const rt_dtype act = rt_device_policy(rt_speaker_device(t->speaker))->act;
    RT_TRY(rt_wire_get_question(&q, question, len, e));
    RT_TRY(rt_wire_check_question(&q, c->vocab, e));
    RT_TRY(identify(t, e));
    if (!rt_hash_equal(q.teacher, t->hash))
        RT_TRY(rt_fail(e, RT_NOT_FOUND, "the question is to another teacher than %s, which is served here",
                       t->model->name));
    RT_TRY(rt_wire_answer_new(&a, &q, (uint32_t)rt_dtype_bytes(act, c->width), e));
    RT_TRY(seal(t, &q, e));
    RT_TRY(say(t, &q, &a, e));
    rt_wire_put_answer(&a, &t->hash, out);
    if (out->failed) RT_TRY(rt_no_memory(e, "a teacher's answer"));
out:
    rt_wire_answer_free(&a);
    return rc;
}
