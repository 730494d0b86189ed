/* inputs_prompts.c - a teacher's prompt as ids: what a document begins with that it is read before, and what stands
 * there instead.
 *
 * Where the data has conversations the prompt is their system message: a conversation is rendered with it and without,
 * and what is left when the part that both share is cut off is what the teacher reads instead. Where it has none, the
 * prompt is text before the text. Made once, as the tokens of the data are: a run that is resumed or measured again
 * reads OUT/run/data/prompt-NN.json, whatever became of the file and of the date in a template. */
#include "job/prepare/inputs_internal.h"

#include "base/json.h"
#include "text/data/data_prompt.h"

#include <stdio.h>
#include <string.h>

enum { PROMPT_BYTES = 1 << 20 };

/* ---- rendering ---- */

/* {"messages": [...]}, or {"prompt": ...} without a template; system null: none. */
static int render(const rt_data_text *t, bool chat, const char *system, const char *said, rt_tok_ids *ids, rt_err *e)
{
    json_t *turn = json_pack("{s:s, s:s}", "role", "user", "content", said);
    json_t *first = system ? json_pack("{s:s, s:s}", "role", "system", "content", system) : NULL;
    json_t *all = !chat   ? json_pack("{s:s}", "prompt", system ? system : said)
                  : first ? json_pack("[O, O]", first, turn)
                          : json_pack("[O]", turn);
    int rc = !all   ? rt_fail(e, RT_INVALID, "a teacher's prompt is not UTF-8, or memory ran out")
             : chat ? rt_prompt_from_chat(t, all, NULL, NULL, ids, e)
                    : rt_prompt_from_record(t, all, NULL, ids, e);
    json_decref(turn);
    json_decref(first);
    json_decref(all);
    return rc;
}

static uint32_t common_start(const rt_tok_ids *a, const rt_tok_ids *b)
{
    uint32_t n = 0;
    while (n < a->count && n < b->count && a->ids[n] == b->ids[n]) n++;
    return n;
}

static uint32_t common_end(const rt_tok_ids *a, const rt_tok_ids *b)
{
    uint32_t n = 0;
    while (n < a->count && n < b->count && a->ids[a->count - 1 - n] == b->ids[b->count - 1 - n]) n++;
    return n;
}

static int copy_ids(rt_arena *a, const int32_t **out, const rt_tok_ids *from, uint32_t count, rt_err *e)
{
    int32_t *ids = rt_arena_alloc(a, count * sizeof *ids + 1);
    if (!ids) return rt_no_memory(e, "a teacher's prompt");
    for (uint32_t i = 0; i < count; i++) ids[i] = (int32_t)from->ids[i];
    *out = ids;
    return RT_OK;
}

/* with: the prompt and a conversation; one, other: two without it. */
static int cut(rt_inputs *in, rt_teacher_prompt *p, bool chat, const rt_tok_ids *with, const rt_tok_ids *one,
               const rt_tok_ids *other, rt_err *e)
{
    int rc;
    uint32_t shared = chat ? common_end(with, one) : 0;
    p->begin_count = common_start(one, other);
    p->skip = chat ? one->count - shared : p->begin_count;
    p->put_count = with->count - shared;
    if (chat && (p->skip >= p->begin_count || !p->put_count))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the chat template does not write a system message before the first turn, so prompt= cannot be "
                       "one; leave it out"));
    RT_TRY(copy_ids(&in->arena, &p->begin, one, p->begin_count, e));
    RT_TRY(copy_ids(&in->arena, &p->put, with, p->put_count, e));
out:
    return rc;
}

/* Whether conversations are among what a teacher is asked about. */
static bool has_chats(const rt_inputs *in, uint32_t teacher)
{
    for (uint32_t i = 0; i < in->train_count; i++) {
        const rt_rows_source *s = &in->train_sources[i];
        rt_shard_record first;
        if (!(in->teachers.served[s->group] >> teacher & 1) || !s->count || !rt_shard_about(s->shards[0])->records)
            continue;
        rt_shard_get(s->shards[0], 0, &first);
        if (first.kind == RT_RECORD_CHAT) return true;
    }
    return false;
}

static bool equal(const rt_tok_ids *a, const rt_tok_ids *b)
{
    return a->count == b->count && common_start(a, b) == a->count;
}

/* with, one: a conversation with the prompt and without. They are equal where the template writes this very message by
 * itself; another message is no longer equal then. */
static int check_new(const rt_data_text *t, const char *path, const rt_str *text, const rt_tok_ids *with,
                     const rt_tok_ids *one, rt_err *e)
{
    int rc = RT_OK;
    rt_str longer = { 0 };
    rt_tok_ids other = { 0 };
    if (!equal(with, one)) return RT_OK;
    rt_str_printf(&longer, "%s a", text->data);
    if (longer.failed) RT_TRY(rt_no_memory(e, "a teacher's prompt"));
    RT_TRY(render(t, true, longer.data, "a", &other, e));
    if (!equal(&other, one))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "prompt=%s is the system message that the chat template writes where there is none, so teacher "
                       "and student would read the same; leave prompt= out, or give another message",
                       path));
out:
    rt_str_free(&longer);
    rt_free(other.ids);
    return rc;
}

static int make(rt_inputs *in, uint32_t teacher, const rt_inputs_opts *o, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    rt_tok_ids with = { 0 }, one = { 0 }, other = { 0 };
    const char *path = in->teachers.list[teacher].prompt;
    bool chat = has_chats(in, teacher);
    if (!in->text) RT_TRY(rt_fail(e, RT_INVALID, "prompt=%s needs a tokenizer, and no model has one", path));
    const rt_data_text t = rt_inputs_text(in, o->now);
    RT_TRY(rt_file_read(path, PROMPT_BYTES, &text, e));
    while (chat && text.len && strchr("\r\n", text.data[text.len - 1])) text.data[--text.len] = '\0';
    if (!text.len || memchr(text.data, 0, text.len))
        RT_TRY(rt_fail(e, RT_INVALID, "prompt=%s is %s; give text", path, text.len ? "not text" : "empty"));
    if (chat && !t.tmpl) RT_TRY(rt_fail(e, RT_INVALID, "prompt=%s needs a chat template, and there is none", path));
    RT_TRY(render(&t, chat, text.data, "a", &with, e));
    RT_TRY(render(&t, chat, NULL, "a", &one, e));
    RT_TRY(render(&t, chat, NULL, "b", &other, e));
    if (chat) RT_TRY(check_new(&t, path, &text, &with, &one, e));
    RT_TRY(cut(in, &in->prompts[teacher], chat, &with, &one, &other, e));
out:
    rt_free(with.ids);
    rt_free(one.ids);
    rt_free(other.ids);
    rt_str_free(&text);
    return rc;
}

/* ---- on disk ---- */

static json_t *ids_json(const int32_t *ids, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* from: what was said of it. Null when out of memory. */
static json_t *prompt_json(const rt_teacher_prompt *p, const char *from)
{
    return json_pack("{s:s, s:o, s:I, s:o}", "from", from, "begin", ids_json(p->begin, p->begin_count), "skip",
                     (json_int_t)p->skip, "put", ids_json(p->put, p->put_count));
}

static bool read_ids(rt_inputs *in, const json_t *list, const int32_t **out, uint32_t *count)
{
    size_t n = json_array_size(list);
    int32_t *ids = json_is_array(list) && n < INT32_MAX ? rt_arena_alloc(&in->arena, n * sizeof *ids + 1) : NULL;
    for (size_t i = 0; ids && i < n; i++) {
        json_int_t id = json_integer_value(json_array_get(list, i));
        if (id < 0 || id >= (json_int_t)rt_inputs_id_rows(in)) return false;
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *count = (uint32_t)n;
    return ids != NULL;
}

/* *same: it is that of `from`; another one is of teachers that --override has replaced. */
static int read_prompt(rt_inputs *in, rt_teacher_prompt *p, const char *path, const char *from, bool *same, rt_err *e)
{
    int rc;
    json_t *j = NULL;
    rc = rt_checked_json_read(&j, path, e);
    if (rc == RT_FORMAT) rt_err_context(e, "remove it to have it made again from prompt=%s", from);
    RT_TRY(rc);
    const char *was = json_string_value(json_object_get(j, "from"));
    if (!(*same = was && strcmp(was, from) == 0)) goto out;
    bool whole = read_ids(in, json_object_get(j, "begin"), &p->begin, &p->begin_count) &&
                 read_ids(in, json_object_get(j, "put"), &p->put, &p->put_count);
    json_int_t skip = json_integer_value(json_object_get(j, "skip"));
    if (!whole || skip < 0 || skip > (json_int_t)p->begin_count)
        RT_TRY(rt_fail(e, RT_FORMAT, "%s was made with other models; remove it to have it made again from prompt=%s",
                       path, from));
    p->skip = (uint32_t)skip;
out:
    json_decref(j);
    return rc;
}

static int write_prompt(const rt_teacher_prompt *p, const char *path, const char *from, const rt_inputs_opts *o,
                        rt_err *e)
{
    json_t *j = prompt_json(p, from);
    int rc = j ? rt_may_write_ask(&o->may_write, e) : rt_no_memory(e, "a teacher's prompt");
    if (rc >= 0) rc = rt_checked_json_write(path, j, NULL, e);
    json_decref(j);
    return rc;
}

int rt_inputs_prompts(rt_inputs *in, const rt_inputs_opts *o, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t k = 0; k < in->teachers.count; k++) {
        bool there = false;
        const char *from = in->teachers.list[k].prompt;
        char *path = from ? rt_arena_printf(&in->arena, "%s/prompt-%02u.json", o->folder, k) : NULL;
        if (!from) continue;
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        if (rt_path_exists(path)) RT_TRY(read_prompt(in, &in->prompts[k], path, from, &there, e));
        if (there) continue;
        RT_TRY(make(in, k, o, e));
        RT_TRY(write_prompt(&in->prompts[k], path, from, o, e));
    }
out:
    return rc;
}

/* ---- who reads it ---- */

int rt_inputs_count_prompted(const rt_inputs *in, uint32_t teacher, const rt_batch *b, uint32_t rows, uint32_t T,
                             uint32_t *prompted, uint32_t *documents, rt_err *e)
{
    int rc;
    const rt_teacher_prompt *p = &in->prompts[teacher];
    rt_reading r = { .rows = 1, .len = T + rt_prompt_extra(p) };
    int32_t *target = rt_alloc((size_t)rows * T * sizeof *target, 64);
    if (!target) RT_TRY(rt_no_memory(e, "a teacher's rows"));
    for (uint32_t i = 0; i < rows * T; i++)
        target[i] = rt_teachers_share(&in->teachers, (uint32_t)b->group[i], teacher) > 0 ? b->target[i] : -1;
    const rt_reading_of of = { b->ids, b->start, target, rows, T };
    RT_TRY(rt_reading_make(&r, p, &of, e));
    *prompted = r.prompted;
    *documents = r.documents;
out:
    rt_free(target);
    rt_reading_free(&r);
    return rc;
}
