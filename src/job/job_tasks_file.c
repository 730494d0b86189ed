/* job_tasks_file.c - task files: a record each line, checked key by key. See job_tasks_internal.h. */
#include "job/job_tasks_internal.h"

#include "base/file.h"
#include "base/json.h"
#include "text/data/data_prompt.h"

#include <string.h>

enum { MAX_NEW = 256, MOST_NEW = 1 << 20, MOST_EACH = 1 << 16, MOST_NAME = 128 };

static const char *const choice_keys[] = { "task", "question", "context", "choices", "answer", "delimiter", NULL };
static const char *const answer_keys[] = { "task", "prompt", "target", "stop", "max_new", NULL };

/* A record while it is read. */
typedef struct reading {
    rt_task_set *set;
    const json_t *j;
    rt_task_record *r;
} reading;

static int check_keys(const json_t *j, const char *const *known, rt_err *e)
{
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)j, key, value)
    {
        uint32_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) i++;
        if (known[i]) continue;
        const char *near = rt_nearest(key, known);
        return rt_fail(e, RT_INVALID, "unknown key '%.100s'%s%s%s", key, near ? "; did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
    }
    return RT_OK;
}

static int copy_text(const reading *x, const json_t *text, rt_span *out, rt_err *e)
{
    *out = rt_span_copy(&x->set->arena, json_string_value(text), json_string_length(text));
    return out->data ? RT_OK : rt_no_memory(e, "tasks");
}

static int take_text(const reading *x, const char *key, rt_span *out, rt_err *e)
{
    const json_t *text = json_object_get(x->j, key);
    if (!json_is_string(text)) return rt_fail(e, RT_INVALID, "`%s` is %s", key, text ? "not a string" : "missing");
    return copy_text(x, text, out, e);
}

/* A text, or a list of at least `least`; none of them empty. */
static int take_list(const reading *x, const char *key, bool one, uint32_t least, rt_span **out, uint32_t *count,
                     rt_err *e)
{
    int rc = RT_OK;
    const json_t *list = json_object_get(x->j, key);
    const bool single = one && json_is_string(list);
    const size_t n = single ? 1 : json_array_size(list);
    if (!single && !json_is_array(list))
        return rt_fail(e, RT_INVALID, "`%s` is %s", key,
                       !list                  ? "missing"
                       : one                  ? "neither a string nor a list of strings"
                       : json_is_string(list) ? "a string, not a list of strings, which JSON lines and Parquet have"
                                              : "not a list of strings");
    if (n < least || n > MOST_EACH)
        return rt_fail(e, RT_INVALID, "`%s` is a list of %zu; it needs %u to %d", key, n, least, MOST_EACH);
    if (!(*out = rt_arena_alloc(&x->set->arena, (n + 1) * sizeof **out))) return rt_no_memory(e, "tasks");
    *count = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = single ? list : json_array_get(list, i);
        if (!json_is_string(text)) return rt_fail(e, RT_INVALID, "`%s`: element %zu is not a string", key, i);
        if (!json_string_length(text)) return rt_fail(e, RT_INVALID, "`%s`: element %zu is empty", key, i);
        RT_TRY(copy_text(x, text, *out + i, e));
    }
out:
    return rc;
}

static int take_choices(const reading *x, rt_err *e)
{
    int rc;
    rt_task_record *r = x->r;
    rt_span *each;
    const json_t *answer = json_object_get(x->j, "answer"), *delimiter = json_object_get(x->j, "delimiter");
    const bool question = json_object_get(x->j, "question") != NULL, context = json_object_get(x->j, "context") != NULL;
    RT_TRY(check_keys(x->j, choice_keys, e));
    if (question && context)
        RT_TRY(rt_fail(e, RT_INVALID, "`question` and `context` mean the same; leave one of them out"));
    RT_TRY(take_text(x, context ? "context" : "question", &r->question, e));
    RT_TRY(take_list(x, "choices", false, 2, &each, &r->count, e));
    r->each = each;
    r->delimiter = (rt_span){ " ", 1 };
    if (delimiter) RT_TRY(take_text(x, "delimiter", &r->delimiter, e));
    if (!json_is_integer(answer))
        RT_TRY(rt_fail(e, RT_INVALID, "`answer` is %s; it is the index of the right choice, from 0",
                       answer ? "not a whole number" : "missing"));
    const json_int_t right = json_integer_value(answer);
    if (right < 0 || right >= (json_int_t)r->count)
        RT_TRY(rt_fail(e, RT_INVALID, "`answer` %lld is out of range (0 to %u, for %u choices)", (long long)right,
                       r->count - 1, r->count));
    r->answer = (uint32_t)right;
out:
    return rc;
}

static int take_answer(const reading *x, rt_err *e)
{
    int rc;
    rt_task_record *r = x->r;
    rt_span *each, *stops = NULL;
    const json_t *most = json_object_get(x->j, "max_new");
    RT_TRY(check_keys(x->j, answer_keys, e));
    RT_TRY(take_text(x, "prompt", &r->question, e));
    RT_TRY(take_list(x, "target", true, 1, &each, &r->count, e));
    r->each = each;
    if (json_object_get(x->j, "stop")) RT_TRY(take_list(x, "stop", true, 0, &stops, &r->stops, e));
    const char **stop = rt_arena_alloc(&x->set->arena, (r->stops + (size_t)1) * sizeof *stop);
    if (!stop) RT_TRY(rt_no_memory(e, "tasks"));
    for (uint32_t i = 0; i < r->stops; i++) stop[i] = stops[i].data;
    r->stop = stop;
    const json_int_t n = json_integer_value(most);
    if (most && (!json_is_integer(most) || n < 1 || n > MOST_NEW))
        RT_TRY(rt_fail(e, RT_INVALID, "`max_new` is not a whole number from 1 to %d", MOST_NEW));
    r->max_new = most ? (uint32_t)n : MAX_NEW;
out:
    return rc;
}

/* Of a file without names: its own, without folder and ending. */
static int name_of(const reading *x, const char *path, char *out, rt_err *e)
{
    const json_t *name = json_object_get(x->j, "task");
    const char *base = rt_path_base(path), *dot = strchr(base, '.');
    if (name && (!json_is_string(name) || !json_string_length(name)))
        return rt_fail(e, RT_INVALID, "`task` is not a name");
    const char *text = name ? json_string_value(name) : base;
    const size_t len = name ? strlen(text) : dot && dot > base ? (size_t)(dot - base) : strlen(base);
    if (len >= MOST_NAME)
        return rt_fail(e, RT_INVALID, "the name of the task is %zu bytes long; give a shorter `task`", len);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127) /* it would be lines of its own in the table */
            return rt_fail(e, RT_INVALID, "the name of the task has a control character; give another `task`");
    if (memchr(text, ':', len)) return rt_fail(e, RT_INVALID, "the name of the task has a colon; give another `task`");
    memcpy(out, text, len);
    out[len] = 0;
    return RT_OK;
}

static int find_task(const reading *x, const char *name, bool choices, rt_err *e)
{
    rt_task_set *s = x->set;
    if (!s->by_name && !(s->by_name = json_object())) return rt_no_memory(e, "tasks");
    const json_t *known = json_object_get(s->by_name, name);
    const uint32_t i = known ? (uint32_t)json_integer_value(known) : s->task_count;
    if (i < s->task_count && s->tasks[i].choices != choices)
        return rt_fail(e, RT_INVALID, "task '%s' has %s here and %s in %s, line %llu; give one of them another name",
                       name, choices ? "choices" : "a target", choices ? "targets" : "choices", s->tasks[i].file,
                       (unsigned long long)s->tasks[i].line);
    if (i == s->task_count) {
        if (!rt_grow((void **)&s->tasks, &s->task_cap, i + 1, sizeof *s->tasks)) return rt_no_memory(e, "tasks");
        s->tasks[i] = (rt_task){
            .name = rt_arena_strdup(&s->arena, name), .choices = choices, .file = x->r->file, .line = x->r->line
        };
        if (!s->tasks[i].name || json_object_set_new_nocheck(s->by_name, name, json_integer(i)) < 0)
            return rt_no_memory(e, "tasks");
        s->task_count++;
    }
    s->tasks[i].n++;
    x->r->task = i;
    return RT_OK;
}

/* The names that the record has tell what was meant: columns of a table that are called otherwise, say. */
static int neither(const json_t *j, rt_err *e)
{
    rt_str names = { 0 };
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)j, key, value)
    {
        if (names.len > 200) continue;
        rt_str_printf(&names, "%s`%.60s`", names.len ? ", " : "", key);
    }
    int rc = rt_fail(e, RT_INVALID,
                     "a record needs either `choices` or a `target`: a list, with `question` and `answer`, the index "
                     "of the right one, or a text, with `prompt`; this one has %s",
                     names.data ? names.data : "nothing");
    rt_str_free(&names);
    return rc;
}

static int add(rt_task_set *s, const char *path, const rt_prompt_line *line, rt_err *e)
{
    int rc;
    char name[MOST_NAME];
    json_error_t at;
    rt_task_record r = { .file = path, .line = line->number };
    json_t *j = rt_json_load(line->text, line->len, JSON_REJECT_DUPLICATES, &at);
    const reading x = { .set = s, .j = j, .r = &r };
    const bool choices = json_object_get(j, "choices") != NULL;
    if (!j && rt_json_out_of_memory()) RT_TRY(rt_no_memory(e, "tasks"));
    if (!j) RT_TRY(rt_fail(e, RT_FORMAT, "not JSON: %s, at byte %d", at.text, at.position));
    if (!json_is_object(j)) RT_TRY(rt_fail(e, RT_FORMAT, "not an object"));
    if (!choices && !json_object_get(j, "target"))
        RT_TRY(neither(j, e));
    RT_TRY(choices ? take_choices(&x, e) : take_answer(&x, e));
    RT_TRY(name_of(&x, path, name, e));
    if (!rt_grow((void **)&s->records, &s->cap, s->count + 1, sizeof *s->records)) RT_TRY(rt_no_memory(e, "tasks"));
    RT_TRY(find_task(&x, name, choices, e));
    s->records[s->count++] = r;
out:
    json_decref(j);
    return rc;
}

int rt_task_set_read(rt_task_set *s, const char *path, rt_job_tell *tell, rt_err *e)
{
    int rc;
    rt_prompt_file *f = NULL;
    rt_prompt_line line;
    const uint32_t before = s->count;
    tell->what = "reading the tasks";
    (void)rt_json_out_of_memory();
    RT_TRY(rt_prompt_file_open(&f, path, true, e));
    while ((rc = rt_prompt_file_next(f, &line, e)) == 1) {
        if ((rc = add(s, path, &line, e)) < 0) {
            rt_err_context(e, "%s, line %llu", path, (unsigned long long)line.number);
            goto out;
        }
        tell->done = s->count;
        if (rt_job_tell_stop(tell)) RT_TRY(rt_fail(e, RT_INTERRUPTED, "interrupted while reading the tasks"));
        if (s->count == UINT32_MAX / MOST_EACH) RT_TRY(rt_fail(e, RT_INVALID, "%s has too many records", path));
    }
    RT_TRY(rc);
    if (s->count == before) RT_TRY(rt_fail(e, RT_INVALID, "%s has no records", path));
out:
    rt_prompt_file_close(f);
    return rc;
}

void rt_task_set_free(rt_task_set *s)
{
    json_decref(s->by_name);
    rt_free(s->tasks);
    rt_free(s->records);
    rt_arena_free(&s->arena);
}
