/* inputs.c - the models of a run: opened, compared, and one chat template chosen. See inputs.h. */
#include "job/prepare/inputs_internal.h"

#include "base/json.h"
#include "infer/load.h"
#include "job/prepare/identity.h"
#include "text/data/data_held.h"

#include <stdio.h>
#include <string.h>

/* ---- a teacher that is a cache ---- */

/* Settings that only a model has a use for. */
static int check_cache_settings(const rt_inputs *in, const rt_settings *s, rt_err *e)
{
    static const rt_setting_id of_models[] = { RT_SETTING_ID_teacher_weights, RT_SETTING_ID_teacher_batch,
                                               RT_SETTING_ID_teacher_memory };
    for (size_t i = 0; i < sizeof of_models / sizeof *of_models; i++)
        if (s->given[of_models[i]])
            return rt_fail(e, RT_INVALID, "%s needs a model as teacher, and %s is a cache; leave it out",
                           rt_setting_table[of_models[i]].flag, s->teacher.text[0]);
    for (uint32_t i = 0; i < s->teacher.count; i++)
        if (in->teachers.list[i].prompt)
            return rt_fail(e, RT_INVALID, "prompt= needs a model as teacher, and %s is a cache; leave it out",
                           in->teachers.list[i].model);
    return RT_OK;
}

int rt_inputs_refuse_identity(const rt_inputs *in, const json_t *of, const rt_settings *s, rt_pool *pool, rt_err *e)
{
    int rc = RT_OK;
    rt_hash128 was, now;
    bool alike =
        (uint64_t)json_integer_value(json_object_get(of, "parameters")) == rt_model_file_parameters(in->student);
    if (!alike || s->allow_degenerate || !rt_hash_from_json(json_object_get(of, "content_hash"), &was)) return RT_OK;
    RT_TRY(rt_model_content_hash(in->student, pool, &now, NULL, e));
    if (rt_hash_equal(was, now))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the %s the student itself, so there is nothing to learn; name another "
                       "student, or give --allow-degenerate",
                       in->cache ? "cache was made with" : "server's model is"));
out:
    return rc;
}

/* One and the same as what the cache is of. */
static int refuse_cached_same(const rt_inputs *in, const rt_settings *s, rt_pool *pool, rt_err *e)
{
    return rt_inputs_refuse_identity(in, json_object_get(rt_cache_about(rt_cache_source_cache(in->cache)), "teacher"),
                                     s, pool, e);
}

/* What is printed and put into cards: a line feed in it would begin a line of somebody else's. */
static bool is_plain(const char *text)
{
    for (; text && *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) return false;
    return true;
}

int rt_inputs_cache_says(const rt_cache *c, const char *path, rt_err *e)
{
    const json_t *a = rt_cache_about(c);
    const char *lacks = !json_is_object(json_object_get(a, "teacher"))                ? "teacher"
                        : !json_is_string(json_object_get(a, "keep"))                 ? "keep"
                        : !(json_number_value(json_object_get(a, "temperature")) > 0) ? "temperature"
                                                                                      : NULL;
    if (!lacks && !is_plain(json_string_value(json_object_get(a, "keep"))))
        return rt_fail(e, RT_FORMAT, "%s/cache.json: what it keeps has a control character", path);
    if (!lacks && !is_plain(json_string_value(json_object_get(json_object_get(a, "teacher"), "name"))))
        return rt_fail(e, RT_FORMAT, "%s/cache.json: the teacher's name has a control character", path);
    if (!lacks) return RT_OK;
    return rt_fail(e, RT_FORMAT, "%s/cache.json has no \"%s\", which a run records; make the cache with retort cache",
                   path, lacks);
}

int rt_inputs_cache_files(const rt_cache *c, const char *path, rt_err *e)
{
    int rc = RT_OK;
    rt_arena a = { 0 };
    const char *name;
    json_t *value;
    char *folder = rt_path_join(&a, path, RT_CACHE_MODEL);
    if (!folder) RT_TRY(rt_no_memory(e, "a path"));
    json_object_foreach(json_object_get(rt_cache_about(c), "files"), name, value)
    {
        rt_hash128 was, now;
        char *file = rt_path_join(&a, folder, name);
        if (!file) RT_TRY(rt_no_memory(e, "a path"));
        if (strchr(name, '/') || !rt_hash_from_json(value, &was))
            RT_TRY(rt_fail(e, RT_FORMAT, "%s/cache.json lists files of the teacher that cannot be read", path));
        RT_TRY(rt_file_hash(file, &now, e));
        if (!rt_hash_equal(was, now))
            RT_TRY(rt_fail(
                e, RT_FORMAT,
                "%s is damaged or was altered (its hash differs); remove the folder %s and fill the cache again", file,
                folder));
    }
out:
    rt_arena_free(&a);
    return rc;
}

/* Rows of hidden states are copied by their width. */
static int check_cache_width(const rt_inputs *in, const char *path, rt_err *e)
{
    const rt_cache_section *s;
    rt_cache_sections(rt_cache_source_cache(in->cache), &s);
    if (s->keep != RT_KEEP_HIDDEN || s->n == in->teacher->config.width) return RT_OK;
    return rt_fail(e, RT_FORMAT,
                   "%s keeps hidden states of %u numbers, and the teacher in it has %u; make another cache", path, s->n,
                   in->teacher->config.width);
}

static int open_cache(rt_inputs *in, const rt_settings *s, const rt_hub_env *env, rt_err *e)
{
    int rc;
    const char *path = in->teachers.list[0].model;
    char *model = rt_path_join(&in->arena, path, RT_CACHE_MODEL);
    if (!model) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_cache_source_open(&in->cache, path, e));
    RT_TRY(rt_inputs_cache_says(rt_cache_source_cache(in->cache), path, e));
    RT_TRY(check_cache_settings(in, s, e));
    RT_TRY(rt_inputs_cache_files(rt_cache_source_cache(in->cache), path, e));
    RT_TRY(rt_model_file_open(&in->teacher, model, env, e));
    RT_TRY(check_cache_width(in, path, e));
    const rt_model_text *t = &in->teacher->text;
    if (t->tokenizer_json.data || t->has_vocab)
        RT_TRY(rt_text_from_model(&in->teacher_text, t, &in->teacher->config, in->teacher->path, e));
    const char *name = json_string_value(
        json_object_get(json_object_get(rt_cache_about(rt_cache_source_cache(in->cache)), "teacher"), "name"));
    if (name && !(in->teacher->name = rt_arena_strdup(&in->teacher->arena, name))) RT_TRY(rt_no_memory(e, "a name"));
out:
    if (rc < 0) rt_err_context(e, "teacher");
    return rc;
}

/* Lists are over the ids that count: those of this pair must be the same. */
static int check_cache_pair(const rt_inputs *in, rt_err *e)
{
    rt_hash128 was, now = rt_pair_hash(&in->pair);
    const json_t *about = rt_cache_about(rt_cache_source_cache(in->cache));
    const rt_keep_plan *k = rt_cache_source_keeps(in->cache);
    if (k->form == RT_FORM_HIDDEN) return RT_OK;
    if (k->n > in->pair.common || k->held_n > in->pair.common)
        return rt_fail(e, RT_FORMAT, "the cache lists %u ids of a position, and %u count; make another cache",
                       k->n > k->held_n ? k->n : k->held_n, in->pair.common);
    if (rt_hash_from_json(json_object_get(json_object_get(about, "ids"), "hash"), &was) && rt_hash_equal(was, now))
        return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "the cache covers %lld ids, and teacher and student share %u, not all of them the same; make it for "
                   "this student (retort cache --student), or make one of hidden states",
                   (long long)json_integer_value(json_object_get(json_object_get(about, "ids"), "count")),
                   in->pair.common);
}

/* ---- the chat template ---- */

static int template_file(rt_inputs *in, const char *path, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    RT_TRY(rt_file_read(path, 4u << 20, &text, e));
    RT_TRY(rt_chat_template_new(&in->own_template, text.data ? text.data : "", text.len, e));
    char *copy = rt_arena_alloc(&in->arena, text.len + 1);
    in->template_from = rt_arena_strdup(&in->arena, rt_path_base(path));
    if (!copy || !in->template_from) RT_TRY(rt_no_memory(e, "a chat template"));
    memcpy(copy, text.data ? text.data : "", text.len);
    in->template_text = (rt_span){ copy, text.len };
out:
    rt_str_free(&text);
    return rc;
}

static bool same_span(rt_span a, rt_span b)
{
    return a.data && b.data && a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* The teacher's where both have one and they differ: it was trained to read and write that one. */
static int choose_template(rt_inputs *in, const rt_settings *s, rt_err *e)
{
    const char *want = s->given[RT_SETTING_ID_chat_template] ? s->chat_template : NULL;
    const rt_text_source *t = in->teacher_text, *u = in->student_text, *from;
    rt_span tt = in->teacher ? in->teacher->text.chat_template : (rt_span){ 0 }, ut = in->student->text.chat_template;
    if (want && strcmp(want, "teacher") != 0 && strcmp(want, "student") != 0) return template_file(in, want, e);
    bool teacher = want ? strcmp(want, "teacher") == 0 : t && t->chat;
    from = teacher ? t : u;
    if (want && (!from || !from->chat))
        return rt_fail(e, RT_INVALID, "the %s has no chat template%s%s; name a file with --chat-template", want,
                       from && from->chat_err.status < 0 ? ": " : "", from ? from->chat_err.text : "");
    if (!from || !from->chat) return RT_OK;
    in->template_text = teacher ? tt : ut;
    in->template_from = teacher ? "teacher" : "student";
    if (!want && teacher && u && u->chat && !same_span(tt, ut))
        rt_note(&in->notes, "the chat templates differ; the teacher's is used, and written to the output "
                            "(--chat-template student takes the other)");
    return RT_OK;
}

int rt_template_vars(json_t **out, const char *const *vars, uint32_t count, rt_err *e)
{
    if (!(*out = json_object())) return rt_no_memory(e, "template variables");
    for (uint32_t i = 0; i < count; i++) {
        const char *eq = strchr(vars[i], '=');
        if (!eq || eq == vars[i]) return rt_fail(e, RT_USAGE, "--template-var takes NAME=VALUE, not '%s'", vars[i]);
        json_t *v = rt_json_load(eq + 1, strlen(eq + 1), JSON_DECODE_ANY, NULL);
        json_t *one = json_pack("{s%:o}", vars[i], (size_t)(eq - vars[i]), v ? v : json_string(eq + 1));
        bool kept = one && json_object_update(*out, one) == 0;
        json_decref(one);
        if (!kept) return rt_fail(e, RT_NOMEM, "no memory for template variable '%s', or it is not UTF-8", vars[i]);
    }
    return RT_OK;
}

rt_data_text rt_inputs_text(const rt_inputs *in, int64_t now)
{
    const rt_text_source *t = in->text;
    const rt_chat_template *chat = in->own_template;
    if (!chat && in->template_from)
        chat = strcmp(in->template_from, "teacher") == 0 ? in->teacher_text->chat : in->student_text->chat;
    /* What ends a turn belongs to the template; of a template from a file it is what the tokenizer says. */
    const rt_text_source *turns = in->template_from && strcmp(in->template_from, "teacher") == 0 ? in->teacher_text : t;
    return (rt_data_text){ .tok = t->tokenizer,
                           .tmpl = chat,
                           .special = turns->special,
                           .extra = in->template_vars,
                           .bos = t->bos,
                           .eos = t->eos,
                           .eot = turns->end_of_turn,
                           .now = now,
                           .columns = in->columns.count ? &in->columns : NULL };
}

rt_hub_env rt_inputs_env(const rt_settings *s, const rt_hub_env *env)
{
    rt_hub_env out = env ? *env : (rt_hub_env){ 0 };
    if (s->base) out.base = s->base;
    return out;
}

/* The first or only one. */
static int open_teacher(rt_inputs *in, const rt_settings *s, const rt_inputs_opts *o, const rt_hub_env *env, rt_err *e)
{
    int rc;
    const char *spec = in->teachers.list[0].model;
    RT_TRY(rt_cache_is(spec)
               ? open_cache(in, s, env, e)
               : rt_inputs_open_model(in, spec, "teacher", o->part, env, &in->teacher, &in->teacher_text, e));
    RT_TRY(rt_pair_check(&in->pair, in->student_text ? in->student_text->tokenizer : NULL, in->student->config.vocab,
                         in->teacher_text ? in->teacher_text->tokenizer : NULL, in->teacher->config.vocab,
                         (uint32_t)s->vocab, e));
    RT_TRY(in->cache ? refuse_cached_same(in, s, o->pool, e) : rt_inputs_refuse_same(in, in->teacher, s, o->pool, e));
    if (in->cache) RT_TRY(check_cache_pair(in, e));
out:
    return rc;
}

int rt_inputs_open(rt_inputs **out, const rt_settings *s, const rt_inputs_opts *o, rt_err *e)
{
    int rc;
    rt_inputs *in = rt_alloc_zero(sizeof *in, 16);
    if (!in) RT_TRY(rt_no_memory(e, "a run"));
    const rt_hub_env env = rt_inputs_env(s, o->env);
    if (s->vocab > INT32_MAX) RT_TRY(rt_fail(e, RT_USAGE, "--vocab is at most %d", INT32_MAX));
    RT_TRY(rt_teachers_parse(&in->teachers, s->teacher.text, s->teacher.count, &in->arena, e));
    RT_TRY(rt_inputs_open_model(in, s->student, "student", o->part, &env, &in->student, &in->student_text, e));
    if (in->teachers.count) RT_TRY(open_teacher(in, s, o, &env, e));
    if (in->teachers.count > 1) RT_TRY(rt_inputs_open_others(in, s, o, &env, e));
    in->text = in->student_text ? in->student_text : in->teacher_text;
    RT_TRY(choose_template(in, s, e));
    if (s->columns) RT_TRY(rt_columns_parse(&in->columns, &in->arena, s->columns, e));
    RT_TRY(rt_template_vars(&in->template_vars, s->template_var.text, s->template_var.count, e));
    *out = in;
    in = NULL;
out:
    rt_inputs_close(in);
    return rc;
}

int rt_inputs_facts(rt_inputs *in, rt_run_facts *f, rt_err *e)
{
    uint64_t elems[RT_DTYPE_COUNT] = { 0 };
    const rt_model_file *m = in->student;
    *f = (rt_run_facts){ .student = &m->config,
                         .teacher = in->teacher ? &in->teacher->config : NULL,
                         .other_teachers = in->teachers.count ? in->teachers.count - 1 : 0,
                         .student_parameters = rt_model_file_parameters(m),
                         .student_dtype = RT_DTYPE_F32 };
    for (uint32_t i = 0; i < f->other_teachers; i++) f->others[i] = &in->others[i].model->config;
    for (uint32_t i = 0; i < in->teachers.count; i++) f->prompt[i] = rt_prompt_extra(&in->prompts[i]);
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *t = rt_tensor_under(&m->tensors[i]);
        if (t->store == RT_STORE_PLAIN) elems[t->dtype] += rt_tensor_elems(t);
    }
    for (int d = 0; d < RT_DTYPE_COUNT; d++)
        if (elems[d] > elems[f->student_dtype]) f->student_dtype = (rt_dtype)d;
    for (uint32_t i = 0; i < in->train_count; i++)
        for (uint32_t k = 0; k < in->train_sources[i].count; k++) {
            const rt_shard_info *about = rt_shard_about(in->train_sources[i].shards[k]);
            f->records += about->records;
            f->tokens += about->tokens;
        }
    for (uint32_t i = 0; i < in->eval_count; i++) {
        double weight = in->eval_sources[i].weight > 0 ? in->eval_sources[i].weight : 1, tokens = 0;
        for (uint32_t k = 0; k < in->eval_sources[i].count; k++)
            tokens += (double)rt_shard_about(in->eval_sources[i].shards[k])->tokens;
        f->eval_tokens += (uint64_t)(weight * tokens + 0.5);
    }
    if (!in->shard_count) return RT_OK;
    return rt_shards_length(in->shards, in->shard_count, 0.99, &f->length99, e);
}

void rt_inputs_close(rt_inputs *in)
{
    if (!in) return;
    rt_rows_close(in->train);
    rt_rows_close(in->held);
    rt_held_free(in->chosen);
    for (uint32_t i = 0; i < in->shard_count; i++) rt_shard_close(in->shards[i]);
    rt_free(in->shards);
    rt_chat_template_free(in->own_template);
    json_decref(in->template_vars);
    rt_text_close(in->student_text);
    rt_text_close(in->teacher_text);
    rt_model_file_close(in->student);
    rt_model_file_close(in->teacher);
    for (uint32_t i = 0; i + 1 < in->teachers.count; i++) {
        rt_text_close(in->others[i].text);
        rt_model_file_close(in->others[i].model);
    }
    rt_cache_source_close(in->cache);
    rt_pair_free(&in->pair);
    rt_arena_free(&in->arena);
    rt_free(in);
}

void rt_inputs_put_teacher(const rt_inputs *in, const rt_dtype *dtypes, rt_teacher_weights w,
                           const rt_step_other *others, rt_step_opts *o)
{
    if (!in->teacher) return;
    if (in->cache) o->source = rt_cache_source_shape(in->cache);
    o->teacher = rt_source_lists(&o->source) ? NULL : &in->teacher->config;
    o->teacher_dtypes = dtypes;
    if (rt_inputs_live(in)) o->teacher_coded = rt_weights_coded(&in->teacher->config, w);
    o->vmask = in->pair.masked;
    for (uint32_t i = 0; i < in->teachers.count; i++) o->prompts[i] = in->prompts[i].put ? &in->prompts[i] : NULL;
    if (in->teachers.count < 2) return;
    o->others = others;
    o->other_count = in->teachers.count - 1;
    o->shares = in->teachers.share;
    o->share_groups = in->teachers.group_count;
}

static int head_dtype(rt_dtype **out, const rt_model_file *m, rt_arena *a, rt_err *e)
{
    char name[RT_NAME_BYTES];
    rt_role_hf_name(name, m->config.tied ? RT_ROLE_EMBED : RT_ROLE_HEAD, 0);
    const rt_tensor *head = rt_model_file_find(m, name);
    if (!head) return rt_fail(e, RT_FORMAT, "%s: the head is missing; make the cache again", m->path);
    if (!(*out = rt_arena_alloc(a, sizeof **out))) return rt_no_memory(e, "a teacher");
    **out = head->dtype;
    return RT_OK;
}

int rt_inputs_teacher_dtypes(rt_dtype **out, const rt_inputs *in, rt_arena *a, rt_err *e)
{
    *out = NULL;
    if (!in->teacher) return RT_OK;
    if (!in->cache) return rt_inputs_dtypes(out, in->teacher, a, e);
    return rt_cache_source_keeps(in->cache)->form == RT_FORM_HIDDEN ? head_dtype(out, in->teacher, a, e) : RT_OK;
}

static int cache_identity(json_t **out, const rt_cache *c, rt_err *e)
{
    const json_t *about = rt_cache_about(c);
    json_t *cache = json_pack("{s:O, s:O}", "keep", json_object_get(about, "keep"), "temperature",
                              json_object_get(about, "temperature"));
    *out = json_deep_copy(json_object_get(about, "teacher"));
    if (*out && cache && json_object_set_new(*out, "cache", cache) == 0) return RT_OK;
    json_decref(*out);
    *out = NULL;
    return rt_no_memory(e, "the identity of a cached teacher");
}

int rt_inputs_teacher_identity(json_t **out, const rt_inputs *in, rt_pool *pool, rt_err *e)
{
    if (in->cache) return cache_identity(out, rt_cache_source_cache(in->cache), e);
    return in->teachers.count > 1 || rt_inputs_prompted(in) ? rt_inputs_other_identity(out, in, 0, pool, e)
                                                            : rt_identity_new(out, in->teacher, pool, e);
}

int rt_inputs_cache_identity(json_t **out, const char *path, rt_err *e)
{
    rt_cache *c = NULL;
    int rc = rt_cache_open(&c, path, e);
    if (rc >= 0) rc = rt_inputs_cache_says(c, path, e);
    if (rc >= 0) rc = cache_identity(out, c, e);
    rt_cache_close(c);
    return rc;
}

uint32_t rt_inputs_id_rows(const rt_inputs *in)
{
    uint32_t least = in->student->config.vocab;
    for (uint32_t i = 0; i < in->teachers.count; i++) {
        uint32_t rows = rt_inputs_teacher(in, i)->config.vocab;
        if (rows < least) least = rows;
    }
    return least;
}

/* ---- for the record ---- */

/* With the files that it was made from, where it knows them. */
static int shard_json(json_t *list, const rt_shard *s, rt_err *e)
{
    const rt_shard_info *f = rt_shard_about(s);
    json_t *about = f->text.len ? rt_json_load(f->text.data, f->text.len, 0, NULL) : NULL;
    json_t *j = json_pack("{s:s, s:o, s:I, s:I, s:I}", "name", rt_path_base(f->path), "hash", rt_hash_to_json(f->hash),
                          "records", (json_int_t)f->records, "tokens", (json_int_t)f->tokens, "trained",
                          (json_int_t)f->trained);
    json_t *files = json_object_get(about, "files");
    bool kept = j && (!files || json_object_set(j, "files", files) == 0);
    json_decref(about);
    if (kept && json_array_append(list, j) == 0) {
        json_decref(j);
        return RT_OK;
    }
    json_decref(j);
    return rt_no_memory(e, "the record of the data");
}

static int sources_json(json_t *out, const char *key, const rt_rows_source *list, uint32_t count, rt_err *e)
{
    int rc = RT_OK;
    json_t *all = json_array();
    if (json_object_set_new(out, key, all) != 0) RT_TRY(rt_no_memory(e, "the record of the data"));
    for (uint32_t i = 0; i < count; i++) {
        json_t *shards = json_array();
        json_t *one = json_pack("{s:s, s:f, s:o}", "name", rt_path_base(list[i].name), "weight",
                                list[i].weight > 0 ? list[i].weight : 1.0, "shards", shards);
        if (json_array_append_new(all, one) != 0) RT_TRY(rt_no_memory(e, "the record of the data"));
        for (uint32_t k = 0; k < list[i].count; k++) RT_TRY(shard_json(shards, list[i].shards[k], e));
    }
out:
    return rc;
}

int rt_inputs_to_json(json_t **out, const rt_inputs *in, rt_err *e)
{
    int rc;
    json_t *j = json_object();
    if (!j) RT_TRY(rt_no_memory(e, "the record of the data"));
    RT_TRY(sources_json(j, "train", in->train_sources, in->train_count, e));
    RT_TRY(sources_json(j, "eval", in->eval_sources, in->eval_count, e));
    *out = j;
    j = NULL;
out:
    json_decref(j);
    return rc;
}
