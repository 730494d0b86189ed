/* job_cache_remote.c - a cache whose teacher is a server: what stands for its model here, and several batches under
 * way.
 *
 * Batches are those that a teacher here would be asked, and are written down in their order, whatever order they are
 * answered in: so a cache that is filled over a network, with however many requests lost on the way, holds the bits of
 * one that was made where the model is. */
#include "job/job_cache_internal.h"

#include "base/json.h"
#include "job/prepare/identity.h"
#include "job/prepare/teacher_folder.h"
#include "teacher/remote/vllm.h"

#include <string.h>

/* ---- who it is ---- */

int rt_cache_remote_begin(rt_cache_work *w, rt_err *e)
{
    int rc = RT_OK;
    const rt_settings *s = &w->settings;
    static const rt_setting_id of_models[] = { RT_SETTING_ID_teacher_weights, RT_SETTING_ID_teacher_memory,
                                               RT_SETTING_ID_device };
    if (!rt_remote_is(s->teacher.text[0])) return RT_OK;
    for (size_t i = 0; i < sizeof of_models / sizeof *of_models; i++)
        if (s->given[of_models[i]])
            RT_TRY(rt_fail(e, RT_INVALID, "%s is of a teacher that is computed here; %s is a server: leave it out",
                           rt_setting_table[of_models[i]].flag, s->teacher.text[0]));
    rt_cache_remote *m = rt_arena_alloc(&w->arena, sizeof *m);
    if (!m) RT_TRY(rt_no_memory(e, "a teacher"));
    RT_TRY(rt_remote_spec_parse(&m->spec, s->teacher.text[0], &w->arena, e));
    w->remote = m;
    if (m->spec.cache && (!s->out || strcmp(m->spec.cache, s->out) != 0))
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher %s: cache= is of retort distill; here --out names the cache",
                       s->teacher.text[0]));
    if (m->spec.keep && w->keep && strcmp(m->spec.keep, w->keep) != 0)
        RT_TRY(rt_fail(e, RT_USAGE, "--keep %s, and keep=%s of --teacher: give one", w->keep, m->spec.keep));
    if (!w->keep) w->keep = m->spec.keep;
    RT_TRY(rt_remote_open(&m->server, &m->spec, e));
out:
    return rc;
}

void rt_cache_remote_free(rt_cache_work *w)
{
    if (!w->remote) return;
    rt_remote_close(w->remote->server);
    json_decref(w->remote->about);
    w->remote = NULL;
}

static int write_files(const rt_wire_teacher *t, const char *folder, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    RT_TRY(rt_dir_make(folder, e));
    for (uint32_t i = 0; i < t->count; i++) {
        char *path = rt_path_join(&a, folder, t->file[i].name);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        RT_TRY(rt_file_write(path, t->file[i].bytes.data, t->file[i].bytes.len, e));
    }
out:
    rt_arena_free(&a);
    return rc;
}

/* It is the teacher that the cache is of, where that is known. */
static int check_known(const rt_cache_work *w, const json_t *about, rt_err *e)
{
    bool old;
    if (!w->remote->about) return RT_OK;
    const char *part =
        rt_identity_differs(json_object_get(w->remote->about, "teacher"), json_object_get(about, "teacher"), &old);
    if (!part) return RT_OK;
    return rt_fail(e, RT_INVALID, "%s has another teacher than %s is of: its %s %s not the same", w->remote->spec.url,
                   w->settings.out, part, strcmp(part, "values") == 0 ? "are" : "is");
}

/* Asks for a path until the reply is one that `read` takes: RT_FORMAT of it is asked again. */
typedef int (*read_fn)(rt_cache_work *w, void *ctx, const rt_str *reply, rt_err *e);

static int ask_for(rt_cache_work *w, const char *path, read_fn read, void *ctx, rt_err *e)
{
    int rc;
    rt_err why = { 0 };
    const rt_str *reply;
    rt_remote *server = w->remote->server;
    const rt_watch watch = { rt_job_tell_watch, &w->tell };
    RT_TRY(rt_remote_ask(server, 0, path, NULL, NULL, e));
    for (;;) {
        RT_TRY(rt_remote_wait(server, 0, &watch, &reply, e));
        rc = read(w, ctx, reply, &why);
        if (rc != RT_FORMAT) break;
        RT_TRY(rt_remote_again(server, 0, &why, e));
    }
    if (rc < 0) RT_TRY(rt_fail(e, rc, "%s: %s", w->remote->spec.url, why.text));
    rt_remote_taken(server, 0);
out:
    return rc;
}

/* ctx: the folder that gets the files of the description; null: none. */
static int read_teacher(rt_cache_work *w, void *ctx, const rt_str *reply, rt_err *e)
{
    int rc;
    rt_cache_remote *m = w->remote;
    rt_wire_teacher t = { 0 };
    RT_TRY(rt_wire_get_teacher(&t, reply->data, reply->len, e));
    RT_TRY(check_known(w, t.about, e));
    if (ctx) RT_TRY(write_files(&t, ctx, e));
    if (!m->about) m->about = json_incref(t.about);
    m->vocab = t.vocab;
    m->act = t.act;
    m->positions = t.positions;
    if (!rt_wire_teacher_hash(t.about, &m->hash)) RT_TRY(rt_no_memory(e, "a teacher"));
    m->met = true;
out:
    json_decref(t.about);
    return rc;
}

/* ---- a vLLM, which says neither its weights nor its tokenizer ---- */

/* So the model is known by its name there; a tokenizer that is here stands for its own, and every token that the server
 * spells out is compared with it. */
static int read_models(rt_cache_work *w, void *ctx, const rt_str *reply, rt_err *e)
{
    rt_cache_remote *m = w->remote;
    (void)ctx;
    return rt_vllm_get_model(&m->model, &m->context, m->spec.model, &w->arena, reply->data, reply->len, e);
}

/* Of a model that is here what stands for the one that is there. */
static int write_stand_in(rt_cache_work *w, const char *folder, rt_err *e)
{
    int rc;
    rt_model_file *m = NULL;
    const char *spec = w->remote->spec.tokenizer ? w->remote->spec.tokenizer : w->settings.student;
    const rt_hub_env env = rt_inputs_env(&w->settings, &w->o->env->hub);
    if (!spec)
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--teacher %s: vLLM does not say its tokenizer; name a model that has the same with "
                       "tokenizer=MODEL, or the --student",
                       w->settings.teacher.text[0]));
    RT_TRY(rt_model_file_open(&m, spec, &env, e));
    RT_TRY(rt_dir_make(folder, e));
    RT_TRY(rt_teacher_folder_write(m, false, folder, &w->out->notes, e));
    rt_note(&w->out->notes,
            "vLLM tells neither the weights nor the tokenizer of %s: it is known by its name, and its "
            "tokens are compared with those of %s",
            w->remote->model, spec);
out:
    rt_model_file_close(m);
    return rc;
}

static int meet_vllm(rt_cache_work *w, const char *folder, rt_err *e)
{
    int rc;
    rt_cache_remote *m = w->remote;
    json_t *about = NULL;
    RT_TRY(ask_for(w, RT_VLLM_PATH_MODELS, read_models, NULL, e));
    about = json_pack("{s:{s:s, s:s, s:i, s:o, s:{}}}", "teacher", "name", m->model, "family", "vLLM", "parameters", 0,
                      "content_hash", rt_hash_to_json(rt_hash(m->model, strlen(m->model))), "files");
    if (!about) RT_TRY(rt_no_memory(e, "a teacher"));
    RT_TRY(check_known(w, about, e));
    if (folder) RT_TRY(write_stand_in(w, folder, e));
    if (!m->about) m->about = json_incref(about);
    m->act = RT_DTYPE_F32;
    m->met = true;
out:
    json_decref(about);
    return rc;
}

static int check_vllm(rt_cache_work *w, rt_err *e)
{
    const rt_cache_remote *m = w->remote;
    const char *url = m->spec.url;
    if (w->plan.form != RT_FORM_TOPK)
        return rt_fail(e, RT_INVALID,
                       "%s is a vLLM, which gives lists of likely ids alone, and no %s; ask for "
                       "keep=topk:K, or serve the teacher with retort serve",
                       url, rt_source_form_name(w->plan.form));
    if (w->settings.temperature != 1)
        return rt_fail(e, RT_INVALID,
                       "--temperature %g: %s is a vLLM, whose log-probabilities are at temperature 1; "
                       "leave it out, or serve the teacher with retort serve",
                       w->settings.temperature, url);
    if (m->context && w->r.seq_len >= m->context)
        return rt_fail(e, RT_INVALID,
                       "%s reads %u tokens, and rows have %u and one that follows; give a lower "
                       "--seq-len",
                       url, m->context, w->r.seq_len);
    if (!w->o->fill && w->pair->common < w->teacher->config.vocab)
        rt_note(&w->out->notes,
                "%u of %u ids do not count, and a vLLM does not leave them out: what it gives to them is "
                "part of the rest",
                w->teacher->config.vocab - w->pair->common, w->teacher->config.vocab);
    w->plan.held_n = w->plan.n; /* it lists no more (--max-logprobs) */
    return RT_OK;
}

static bool text_of(void *tokenizer, uint32_t id, rt_span *out)
{
    rt_token_info info;
    if (!tokenizer || !rt_tokenizer_token(tokenizer, id, &info) || info.special) return false;
    *out = (rt_span){ info.bytes.data, info.bytes.len };
    return true;
}

static int take_vllm(rt_cache_work *w, rt_wire_answer *a, const rt_wire_question *q, const rt_str *reply, rt_err *e)
{
    const rt_text_source *t = w->in->teacher_text ? w->in->teacher_text : w->in->text;
    const rt_vllm_ids ids = { .text = text_of,
                              .ctx = t ? (void *)(uintptr_t)t->tokenizer : NULL,
                              .vocab = w->teacher->config.vocab };
    return rt_vllm_get_answer(a, q, &ids, reply->data, reply->len, e);
}

/* ---- either ---- */

/* It says what it is. */
static int meet(rt_cache_work *w, const char *folder, rt_err *e)
{
    const bool hidden = w->keep && strcmp(w->keep, "hidden") == 0;
    if (w->remote->spec.vllm) return meet_vllm(w, folder, e);
    return ask_for(w, hidden ? RT_WIRE_PATH_TEACHER "?keep=hidden" : RT_WIRE_PATH_TEACHER, read_teacher,
                   (void *)(uintptr_t)folder, e);
}

int rt_cache_remote_open(rt_cache_work *w, rt_err *e)
{
    int rc = RT_OK;
    rt_cache_remote *m = w->remote;
    const rt_cache_section *sections;
    m->folder = rt_path_join(&w->arena, w->there ? w->settings.out : w->folder, RT_CACHE_MODEL);
    if (!m->folder) RT_TRY(rt_no_memory(e, "a path"));
    if (!w->there) return meet(w, m->folder, e);
    RT_TRY(rt_inputs_cache_files(w->cache, w->settings.out, e));
    m->about = json_pack("{s:O}", "teacher", json_object_get(rt_cache_about(w->cache), "teacher"));
    if (!m->about) RT_TRY(rt_no_memory(e, "a teacher"));
    rt_cache_sections(w->cache, &sections);
    m->act = sections->dtype;
out:
    return rc;
}

int rt_cache_remote_check(rt_cache_work *w, rt_err *e)
{
    const rt_cache_remote *m = w->remote;
    if (m->spec.vllm) return check_vllm(w, e);
    if (!m->met || m->vocab == w->teacher->config.vocab) return RT_OK;
    return rt_fail(e, RT_NETWORK, "%s says that its teacher has %u ids, and its configuration says %u", m->spec.url,
                   m->vocab, w->teacher->config.vocab);
}

/* ---- asking ---- */

static uint32_t row_bytes(const rt_cache_work *w)
{
    return w->plan.form == RT_FORM_HIDDEN ? (uint32_t)rt_dtype_bytes(w->act, w->teacher->config.width) : 0;
}

static rt_wire_question question_of(const rt_cache_work *w, const rt_cache_batch *b)
{
    static const rt_keep keeps[] = {
        [RT_FORM_HIDDEN] = RT_KEEP_HIDDEN, [RT_FORM_TOPK] = RT_KEEP_TOPK, [RT_FORM_DRAWS] = RT_KEEP_DRAWS
    };
    const size_t N = (size_t)w->B * w->r.seq_len;
    return (rt_wire_question){ .teacher = w->remote->hash,
                               .keep = keeps[w->plan.form],
                               .held = b->held,
                               .B = w->B,
                               .T = w->r.seq_len,
                               .n = w->plan.n,
                               .held_n = w->plan.held_n,
                               .temperature = w->settings.temperature,
                               .seed = w->settings.seed,
                               .ids = b->ids,
                               .start = b->ids + 2 * N,
                               .count = b->asked,
                               .position = b->position,
                               .target = b->target,
                               .key = b->key,
                               .mask_words = w->mask ? (w->teacher->config.vocab + 31) / 32 : 0,
                               .mask = w->mask };
}

int rt_cache_remote_meet(rt_cache_work *w, rt_err *e)
{
    int rc = RT_OK;
    const rt_cache_remote *m = w->remote;
    if (m->met) return RT_OK;
    RT_TRY(meet(w, NULL, e));
    RT_TRY(rt_cache_remote_check(w, e));
    if (w->plan.form == RT_FORM_HIDDEN && m->act != w->act)
        RT_TRY(rt_fail(e, RT_INVALID, "%s has hidden states in %s, and %s keeps them in %s", m->spec.url,
                       rt_dtype_name(m->act), w->settings.out, rt_dtype_name(w->act)));
out:
    return rc;
}

void rt_cache_remote_forget(rt_cache_work *w)
{
    rt_remote_forget(w->remote->server);
    for (uint32_t i = 0; i < RT_CLIENT_SLOTS; i++) w->remote->under_way[i] = false;
}

static bool has_place(const rt_cache_batch *b, const rt_cache_place *p)
{
    for (uint32_t i = 0; i < b->place_count; i++)
        if (rt_hash_equal(b->places[i].key, p->key) && b->places[i].wanted & p->wanted) return true;
    return false;
}

bool rt_cache_remote_expects(const rt_cache_work *w, const rt_cache_batch *b)
{
    for (uint32_t k = 0; k < w->batches; k++) {
        if (!w->remote->under_way[k] || w->batch[k].held != b->held) continue;
        for (uint32_t i = 0; i < b->place_count; i++)
            if (has_place(&w->batch[k], &b->places[i])) return true;
    }
    return false;
}

int rt_cache_remote_send(rt_cache_work *w, uint32_t batch, rt_err *e)
{
    int rc;
    rt_str body = { 0 };
    rt_cache_remote *m = w->remote;
    rt_cache_batch *b = &w->batch[batch];
    RT_TRY(rt_cache_remote_meet(w, e));
    rt_cache_work_list(w, b);
    m->question[batch] = question_of(w, b);
    if (m->spec.vllm)
        rt_vllm_put_question(&m->question[batch], m->model, &body);
    else
        rt_wire_put_question(&m->question[batch], &body);
    RT_TRY(rt_remote_ask(m->server, batch, m->spec.vllm ? RT_VLLM_PATH_ANSWERS : RT_WIRE_PATH_ANSWERS,
                         m->spec.vllm ? RT_VLLM_TYPE : RT_WIRE_TYPE, &body, e));
    m->under_way[batch] = true;
out:
    rt_str_free(&body);
    return rc;
}

/* Hidden states come for the positions that were asked for alone, and a batch has room for all. From the last on, since
 * none moves to a lower place. */
static void spread(const rt_cache_work *w, rt_cache_batch *b)
{
    const size_t row = row_bytes(w);
    for (uint32_t i = b->asked; i-- > 0;)
        memmove((char *)b->hidden + (size_t)b->position[i] * row, (char *)b->hidden + i * row, row);
}

static int take(rt_cache_work *w, uint32_t batch, const rt_str *reply, rt_err *e)
{
    int rc;
    rt_wire_answer a;
    rt_wire_list lists[RT_WIRE_LISTS];
    rt_cache_batch *b = &w->batch[batch];
    const rt_wire_question *q = &w->remote->question[batch];
    for (uint32_t i = 0; i < RT_WIRE_LISTS; i++) {
        const rt_says_answer *x = &b->answer[i];
        lists[i] = (rt_wire_list){ 0, x->id, x->logp, x->rest, x->entropy, x->target_logp };
    }
    RT_TRY(rt_wire_answer_over(&a, q, row_bytes(w), lists, b->hidden, e));
    RT_TRY(w->remote->spec.vllm ? take_vllm(w, &a, q, reply, e)
                                : rt_wire_get_answer(&a, q, w->remote->vocab, reply->data, reply->len, e));
    if (b->hidden) spread(w, b);
out:
    return rc;
}

int rt_cache_remote_hear(rt_cache_work *w, uint32_t batch, rt_err *e)
{
    int rc = RT_OK;
    rt_err why = { 0 };
    const rt_str *reply;
    rt_cache_remote *m = w->remote;
    const rt_watch watch = { rt_job_tell_watch, &w->tell };
    while (m->under_way[batch]) {
        RT_TRY(rt_remote_wait(m->server, batch, &watch, &reply, e));
        rc = take(w, batch, reply, &why);
        if (rc == RT_FORMAT) { /* no answer: it may be one the next time */
            RT_TRY(rt_remote_again(m->server, batch, &why, e));
            continue;
        }
        if (rc < 0) RT_TRY(rt_fail(e, rc, "%s: %s", m->spec.url, why.text));
        rt_remote_taken(m->server, batch);
        m->under_way[batch] = false;
        w->answered = &w->batch[batch];
        RT_TRY(rt_cache_work_keep(w, e));
        RT_TRY(rt_cache_work_commit_in_time(w, e));
    }
out:
    return rc;
}

int rt_cache_remote_hear_all(rt_cache_work *w, bool ready, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; rc >= 0 && i < w->batches; i++) {
        const uint32_t batch = (w->turn + i) % w->batches;
        if (!w->remote->under_way[batch]) continue;
        if (ready && !rt_remote_has(w->remote->server, batch)) break;
        rc = rt_cache_remote_hear(w, batch, e);
    }
    return rc;
}
