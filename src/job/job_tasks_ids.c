/* job_tasks_ids.c - a question and its choices as ids, to the id as lm-eval has them. See job_tasks_internal.h.
 *
 * Question and choice are encoded together, and the ids of the question alone tell by their number where the choice
 * begins. White space at the end of the question goes to the choice first, for a token may hold both. */
#include "job/job_tasks_internal.h"

#include "base/utf8.h"
#include "text/jinja/jinja_unicode.h"

#include <string.h>

/* Without the white space at its end, as Python's rstrip knows it. */
static size_t stripped(const char *text, size_t len)
{
    while (len) {
        uint32_t bytes;
        const char *last = rt_utf8_before(text, text + len);
        if (!rt_ju_space(rt_utf8_get(last, &bytes))) break;
        len = (size_t)(last - text);
    }
    return len;
}

/* With what the tokenizer puts around a text, unless it begins so already: a template may have written the BOS. */
static int encode(const rt_task_text *t, const rt_str *text, size_t len, rt_tok_ids *ids, rt_err *e)
{
    const int64_t start = rt_speaker_start(t->speaker);
    rt_token_info info;
    const bool has = start >= 0 && rt_speaker_token(t->speaker, (uint32_t)start, &info) && info.text.len &&
                     len >= info.text.len && memcmp(text->data, info.text.data, info.text.len) == 0;
    return rt_speaker_encode(t->speaker, text->data ? text->data : "", len, !has, ids, e);
}

/* What the model reads of a question. */
static int question_text(const rt_task_text *t, const rt_task_record *r, rt_str *out, rt_err *e)
{
    if (!t->chat) {
        rt_str_append_n(out, r->question.data, r->question.len);
        return out->failed ? rt_no_memory(e, "a question") : RT_OK;
    }
    json_t *messages = json_pack("[{s:s, s:s%}]", "role", "user", "content", r->question.data, r->question.len);
    const rt_speaker_chat chat = { .messages = messages, .vars = t->vars, .now = t->now, .utc_offset = t->utc_offset };
    const int rc = messages ? rt_speaker_render(t->speaker, &chat, out, e) : rt_no_memory(e, "a question");
    json_decref(messages);
    return rc;
}

/* Nothing stands before the choice: the id that begins a text does. */
static int start_choice(const rt_task_text *t, const rt_str *choice, rt_task_request *q, rt_err *e)
{
    int rc;
    const int64_t start = rt_speaker_start(t->speaker);
    if (start < 0)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the question is empty, and the tokenizer has neither BOS nor EOS to start with; "
                       "give a question"));
    RT_TRY(rt_speaker_encode(t->speaker, choice->data, choice->len, false, &q->ids, e));
    if (!q->ids.count || q->ids.ids[0] != (uint32_t)start) {
        if (!rt_grow((void **)&q->ids.ids, &q->ids.cap, q->ids.count + 1, sizeof *q->ids.ids))
            RT_TRY(rt_no_memory(e, "a question"));
        memmove(q->ids.ids + 1, q->ids.ids, q->ids.count++ * sizeof *q->ids.ids);
        q->ids.ids[0] = (uint32_t)start;
    }
    q->scored = 1;
out:
    return rc;
}

static int join_choice(const rt_task_text *t, const rt_str *question, const rt_span *delimiter, const rt_span *choice,
                       uint32_t before, rt_task_request *q, rt_err *e)
{
    int rc = RT_OK;
    rt_str whole = { 0 };
    rt_str_append_n(&whole, question->data ? question->data : "", question->len);
    rt_str_append_n(&whole, delimiter->data, delimiter->len);
    rt_str_append_n(&whole, choice->data, choice->len);
    if (whole.failed) RT_TRY(rt_no_memory(e, "a question"));
    q->scored = before;
    RT_TRY(question->len ? encode(t, &whole, whole.len, &q->ids, e) : start_choice(t, &whole, q, e));
    if (!q->scored)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the question is only white space, and the tokenizer adds no BOS before it; give a question"));
    if (q->ids.count <= q->scored) RT_TRY(rt_fail(e, RT_INVALID, "choice %u adds no token to the question", q->choice));
out:
    rt_str_free(&whole);
    return rc;
}

static int add(rt_task_request_list *l, uint32_t record, uint32_t choice, rt_task_request **out, rt_err *e)
{
    if (!rt_grow((void **)&l->each, &l->cap, l->count + 1, sizeof *l->each)) return rt_no_memory(e, "requests");
    *out = &l->each[l->count++];
    **out = (rt_task_request){ .record = record, .choice = choice };
    return RT_OK;
}

int rt_task_requests_add(rt_task_request_list *l, const rt_task_text *t, const rt_task_set *s, uint32_t i, rt_err *e)
{
    int rc;
    const rt_task_record *r = &s->records[i];
    /* A template writes all that stands before an answer, white space too. */
    const rt_span delimiter = t->chat ? (rt_span){ "", 0 } : r->delimiter;
    rt_str question = { 0 };
    rt_tok_ids before = { 0 };
    rt_task_request *q;
    RT_TRY(question_text(t, r, &question, e));
    if (!s->tasks[r->task].choices) {
        RT_TRY(add(l, i, 0, &q, e));
        RT_TRY(encode(t, &question, question.len, &q->ids, e));
        if (!q->ids.count) RT_TRY(rt_fail(e, RT_INVALID, "`prompt` is empty; give a text to continue"));
        goto out;
    }
    RT_TRY(encode(t, &question, stripped(question.data ? question.data : "", question.len), &before, e));
    if (before.count >= t->context)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the question has %u tokens, and the model's context is %u; shorten it or leave it out",
                       before.count, t->context));
    for (uint32_t k = 0; k < r->count; k++) {
        if (rt_job_tell_stop(t->tell)) RT_TRY(rt_fail(e, RT_INTERRUPTED, "interrupted while reading the tasks"));
        RT_TRY(add(l, i, k, &q, e));
        RT_TRY(join_choice(t, &question, &delimiter, &r->each[k], before.count, q, e));
    }
out:
    rt_free(before.ids);
    rt_str_free(&question);
    return rc;
}

void rt_task_requests_free(rt_task_request_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        rt_free(l->each[i].ids.ids);
        rt_str_free(&l->each[i].text);
    }
    rt_free(l->each);
    *l = (rt_task_request_list){ 0 };
}
