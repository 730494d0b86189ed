/* samples.c - the texts of a run's samples, and their file. See samples.h; the prompts are sample_prompts.c's. */
#include "job/run/samples.h"

#include "base/json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { FOUR = 4, FILE_BYTES = 1 << 30 };

uint32_t rt_repeated_tokens(const uint32_t *ids, uint32_t count)
{
    uint32_t repeated = 0, counted = 0; /* counted: tokens before this place are done with */
    for (uint32_t i = 1; i + FOUR <= count; i++)
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(ids + i, ids + k, FOUR * sizeof *ids) != 0) continue;
            uint32_t begin = i > counted ? i : counted;
            repeated += i + FOUR - begin;
            counted = i + FOUR;
            break;
        }
    return repeated;
}

/* ---- one text ---- */

typedef struct answer {
    const rt_stops *stops;
    rt_tok_ids ids;
    bool stopped;
    const rt_watch *watch;
    uint32_t prompt, prompts; /* this one of so many */
} answer;

static int on_token(void *ctx, uint32_t id, rt_err *e)
{
    answer *a = ctx;
    int rc = rt_watch_step(a->watch, "sampling", a->prompt, a->prompts, e);
    if (rc < 0) return rc;
    if (rt_stops_has(a->stops, id)) return a->stopped = true, 1;
    if (!rt_grow((void **)&a->ids.ids, &a->ids.cap, a->ids.count + 1, sizeof *a->ids.ids))
        return rt_no_memory(e, "samples");
    a->ids.ids[a->ids.count++] = id;
    return RT_OK;
}

/* Rows of an embedding that no tokenizer defines say nothing. */
static int text_of(const rt_samples *s, const rt_tok_ids *ids, rt_str *text, rt_err *e)
{
    int rc = RT_OK;
    const rt_tokenizer *tok = s->in->text->tokenizer;
    rt_tok_stream *stream = NULL;
    rt_token_info info;
    RT_TRY(rt_tok_stream_new(&stream, tok, RT_DECODE_SKIP_SPECIAL, e));
    for (uint32_t i = 0; i < ids->count; i++)
        if (rt_tokenizer_token(tok, ids->ids[i], &info)) RT_TRY(rt_tok_stream_push(stream, ids->ids[i], text, e));
    RT_TRY(rt_tok_stream_end(stream, text, e));
    if (text->failed) RT_TRY(rt_no_memory(e, "samples"));
out:
    rt_tok_stream_free(stream);
    return rc;
}

/* a->ids is the caller's to free, also on failure. */
static int say(const rt_samples *s, const rt_trainer *t, const rt_sample_prompt *p, bool teacher, answer *a,
               rt_str *text, rt_err *e)
{
    int rc;
    a->stops = teacher ? &s->teacher_stops : &s->student_stops;
    a->watch = t->watch;
    a->prompt = (uint32_t)(p - s->prompts);
    a->prompts = s->count;
    rt_generator *g = teacher ? t->plan->teacher_says : t->plan->student_says;
    if (!g) RT_TRY(rt_fail(e, RT_INTERNAL, "samples of a run that was sealed without them"));
    RT_TRY(rt_generator_run(g, p->ids, p->count, s->tokens, on_token, a, NULL, e));
    RT_TRY(text_of(s, &a->ids, text, e));
out:
    if (rc < 0) rt_err_context(e, "a sample of the %s", teacher ? "teacher" : "student");
    return rc;
}

/* ---- the file ---- */

static int keep_text(rt_samples *s, rt_span *to, const char *text, size_t len, rt_err *e)
{
    char *copy = rt_arena_alloc(&s->arena, len + 1);
    if (!copy) return rt_no_memory(e, "samples");
    memcpy(copy, text, len);
    *to = (rt_span){ copy, len };
    return RT_OK;
}

/* What a line that stays says about what need not be made again. */
static int remember(rt_samples *s, const json_t *line, rt_err *e)
{
    int rc = RT_OK;
    const json_t *prompt = json_object_get(line, "prompt"), *text = json_object_get(line, "text");
    const char *who = json_string_value(json_object_get(line, "who"));
    for (uint32_t i = 0; who && i < s->count; i++) {
        rt_sample_prompt *p = &s->prompts[i];
        rt_span *to = strcmp(who, "teacher") == 0 ? &p->teacher : &p->before;
        if (to->data || json_string_length(prompt) != p->text.len || !json_is_string(text) ||
            memcmp(json_string_value(prompt), p->text.data, p->text.len) != 0)
            continue;
        RT_TRY(keep_text(s, to, json_string_value(text), json_string_length(text), e));
    }
out:
    return rc;
}

/* Bytes of the lines up to step keep_to. Lines are in the order of steps; the first that cannot be read ends them. */
static int read_kept(rt_samples *s, int64_t keep_to, uint64_t *bytes, rt_err *e)
{
    int rc = RT_OK;
    rt_str text = { 0 };
    json_t *j = NULL;
    *bytes = 0;
    if (keep_to < 0 || !rt_path_exists(s->path)) return RT_OK;
    RT_TRY(rt_file_read(s->path, FILE_BYTES, &text, e));
    const char *at = text.data ? text.data : "", *stop = at + text.len;
    for (const char *end; (end = memchr(at, '\n', (size_t)(stop - at))); at = end + 1) {
        (void)rt_json_out_of_memory();
        json_decref(j);
        j = rt_json_load(at, (size_t)(end - at), JSON_ALLOW_NUL, NULL);
        if (!j && rt_json_out_of_memory()) RT_TRY(rt_no_memory(e, "samples"));
        const json_t *step = json_object_get(j, "step");
        if (!json_is_integer(step) || json_integer_value(step) > keep_to) break;
        RT_TRY(remember(s, j, e));
        *bytes += (uint64_t)(end + 1 - at);
    }
out:
    json_decref(j);
    rt_str_free(&text);
    return rc;
}

int rt_samples_begin(rt_samples *s, const char *folder, int64_t keep_to, rt_err *e)
{
    int rc;
    uint64_t bytes;
    if (!s || !s->count) return RT_OK;
    rt_json_init();
    if (!(s->path = rt_path_join(&s->arena, folder, "samples.jsonl"))) RT_TRY(rt_no_memory(e, "samples"));
    RT_TRY(read_kept(s, keep_to, &bytes, e));
    RT_TRY(rt_append_open(&s->file, s->path, bytes, e));
out:
    return rc;
}

int rt_samples_sync(rt_samples *s, rt_err *e) { return s ? rt_append_sync(&s->file, e) : RT_OK; }

json_t *rt_sample_to_json(const rt_sample_said *v)
{
    return json_pack("{s:I, s:s%, s:s, s:s%, s:b}", "step", (json_int_t)v->step, "prompt", v->prompt.data,
                     v->prompt.len, "who", v->teacher ? "teacher" : "student", "text", v->text.data, v->text.len,
                     "stopped", (int)v->stopped);
}

static int write_line(rt_samples *s, const rt_sample_said *v, rt_err *e)
{
    int rc;
    json_t *j = rt_sample_to_json(v);
    char *line = rt_json_dump(j, JSON_COMPACT);
    size_t n = line ? strlen(line) : 0;
    if (line) line[n++] = '\n'; /* in the place of the terminator */
    rc = line ? rt_append_put(&s->file, line, n, e) : rt_no_memory(e, "samples");
    rt_free(line);
    json_decref(j);
    return rc;
}

/* ---- at an evaluation ---- */

typedef struct tally {
    uint32_t texts, stopped, tokens, repeated;
} tally;

static int make_one(rt_samples *s, rt_trainer *t, uint32_t step, rt_sample_prompt *p, bool teacher, tally *n, rt_err *e)
{
    int rc;
    answer a = { 0 };
    rt_str text = { 0 };
    rt_span *first = teacher ? &p->teacher : &p->before;
    RT_TRY(say(s, t, p, teacher, &a, &text, e));
    rt_sample_said said = { step, teacher, a.stopped, p->text, { text.data ? text.data : "", text.len } };
    RT_TRY(rt_may_write_ask(&s->may_write, e));
    RT_TRY(write_line(s, &said, e));
    if (s->said) s->said(s->ctx, &said);
    if (!first->data) RT_TRY(keep_text(s, first, said.text.data, said.text.len, e));
    n->texts++;
    n->stopped += a.stopped;
    n->tokens += a.ids.count;
    n->repeated += rt_repeated_tokens(a.ids.ids, a.ids.count);
out:
    rt_free(a.ids.ids);
    rt_str_free(&text);
    return rc;
}

int rt_samples_make(rt_samples *s, rt_trainer *t, uint32_t step, rt_eval_result *v, rt_err *e)
{
    int rc = RT_OK;
    tally n = { 0 }, teachers = { 0 };
    if (!s || !s->count) return RT_OK;
    for (uint32_t i = 0; i < s->count; i++) {
        rt_sample_prompt *p = &s->prompts[i];
        if (rt_inputs_teacher_speaks(s->in) && !p->teacher.data) RT_TRY(make_one(s, t, step, p, true, &teachers, e));
        RT_TRY(make_one(s, t, step, p, false, &n, e));
    }
    v->sampled = true;
    v->stop_rate = (double)n.stopped / n.texts;
    v->repetition_rate = n.tokens ? (double)n.repeated / n.tokens : 0;
out:
    return rc;
}

int rt_samples_say(rt_samples *s, rt_trainer *t, uint32_t i, rt_span *out, rt_err *e)
{
    int rc;
    answer a = { 0 };
    rt_str text = { 0 };
    RT_TRY(say(s, t, &s->prompts[i], false, &a, &text, e));
    RT_TRY(keep_text(s, out, text.data ? text.data : "", text.len, e));
out:
    rt_free(a.ids.ids);
    rt_str_free(&text);
    return rc;
}
