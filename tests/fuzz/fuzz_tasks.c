/* fuzz_tasks.c - any bytes as a file of tasks: read, made into requests, marked, scored, told as details.
 *
 * The first byte chooses the file's ending, whether questions are chats, and what a model would have said. The model's
 * text is a stand-in of one id for each byte, so that every number can be checked. With -DRT_FUZZ_REPLAY it has a
 * main() of its own (replay.h). */
#include "base/file.h"
#include "base/json.h"
#include "job/job_tasks_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

/* ---- a model's text ---- */

enum { BEGIN = 256, CONTEXT = 512 };

int64_t rt_speaker_start(const rt_speaker *s) { return s ? -1 : BEGIN; }

bool rt_speaker_token(const rt_speaker *s, uint32_t id, rt_token_info *out)
{
    (void)s;
    *out = (rt_token_info){ .text = { "<s>", 3 }, .special = id == BEGIN };
    return id <= BEGIN;
}

int rt_speaker_encode(const rt_speaker *s, const char *text, size_t len, bool special, rt_tok_ids *ids, rt_err *e)
{
    (void)s;
    if (!rt_grow((void **)&ids->ids, &ids->cap, ids->count + (uint32_t)len + 1, sizeof *ids->ids))
        return rt_no_memory(e, "ids");
    if (special) ids->ids[ids->count++] = BEGIN;
    for (size_t i = 0; i < len; i++) ids->ids[ids->count++] = (uint8_t)text[i];
    return RT_OK;
}

int rt_speaker_render(const rt_speaker *s, const rt_speaker_chat *c, rt_str *text, rt_err *e)
{
    const json_t *m = json_array_get(c->messages, 0), *said = json_object_get(m, "content");
    (void)s, (void)e;
    require(json_array_size(c->messages) == 1 && json_is_string(said));
    rt_str_append(text, "user: ");
    rt_str_append_n(text, json_string_value(said), json_string_length(said));
    rt_str_append(text, "\nassistant: ");
    return RT_OK;
}

/* ---- one file ---- */

static const char *const endings[] = { "jsonl", "json", "txt", "csv" };
enum { ENDINGS = sizeof endings / sizeof *endings };
static char records_path[80];

static void tear_down(void) { remove(records_path); }

/* What is asked has something to score, and its ids are of the text. */
static void check_request(const rt_task_set *s, const rt_task_request *q)
{
    const rt_task_record *r = &s->records[q->record];
    const bool choices = s->tasks[r->task].choices;
    require(q->ids.count > 0 && q->choice < (choices ? r->count : 1));
    require(choices == (r->max_new == 0) && (!choices || r->answer < r->count));
    if (choices) require(q->scored > 0 && q->scored < q->ids.count);
    for (uint32_t i = 0; i < q->ids.count; i++) require(q->ids.ids[i] <= BEGIN);
}

/* Requests of all records; false where one is refused. */
static bool make_requests(const rt_task_set *s, bool chat, rt_task_request_list *l)
{
    rt_err e = { 0 };
    rt_job_tell tell = { 0 };
    const rt_task_text text = { .chat = chat, .context = CONTEXT, .tell = &tell };
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t from = l->count;
        const int rc = rt_task_requests_add(l, &text, s, i, &e);
        require(rc == RT_OK || (rc == RT_INVALID && e.text[0]));
        if (rc < 0) return false;
        require(l->count - from == (s->tasks[s->records[i].task].choices ? s->records[i].count : 1));
        for (; from < l->count; from++) check_request(s, &l->each[from]);
    }
    return true;
}

static void say(rt_task_request *q, uint32_t i, uint8_t seed, const rt_task_record *r)
{
    q->logp = -(double)((i * 37 + seed) % 11);
    const rt_span *told = &r->each[(i + seed) % r->count];
    if (r->max_new) rt_str_append_n(&q->text, told->data, told->len);
}

static void use(rt_task_set *s, rt_task_request_list *l, uint8_t seed)
{
    rt_err e = { 0 };
    rt_str details = { 0 };
    rt_job_tasked out = { .model_count = 1 };
    rt_task_model model = { .name = "m" };
    rt_task_marks marks = { 0 };
    const char *const wanted[] = { "acc>=0.5", "exact_match>=0", "x:acc_norm>=1" };
    rt_task_request *q = l->each;
    out.models = &model;
    for (uint32_t i = 0; i < l->count; i++) say(&l->each[i], i, seed, &s->records[l->each[i].record]);
    require(rt_task_marks_make(&marks, &s->arena, s->count, &e) == RT_OK && rt_task_rows(&out, s, &e) == RT_OK);
    for (uint32_t i = 0; i < s->count; i++) {
        rt_task_mark(&marks, s, i, q);
        require(rt_task_detail(&details, &out, 0, s, i, q, &marks, &e) == RT_OK);
        q += s->tasks[s->records[i].task].choices ? s->records[i].count : 1;
    }
    require(rt_task_score_all(&out, s, 0, &marks, &marks, &e) == RT_OK);
    uint64_t records = 0;
    for (uint32_t i = 0; i < out.row_count; i++) {
        const rt_measure v = out.rows[i].scores[0].value;
        require(v.mean >= 0 && v.mean <= 1 && (isnan(v.error) ? out.rows[i].n == 1 : v.error >= 0));
        if (out.rows[i].metric != RT_TASK_ACC_NORM) records += out.rows[i].n;
    }
    require(records == s->count);
    if (rt_task_gates_parse(&out, &wanted[seed % 3], 1, &e) == RT_OK) rt_task_gates_look(&out);
    rt_str_free(&details);
    rt_arena_free(&out.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int ready;
    rt_err e = { 0 };
    rt_task_set s = { 0 };
    rt_task_request_list l = { 0 };
    rt_job_tell tell = { 0 };
    if (!ready++) atexit(tear_down);
    if (size < 1) return 0;
    rt_json_init();
    snprintf(records_path, sizeof records_path, "/tmp/retort-fuzz-tasks-%ld.%s", (long)getpid(),
             endings[data[0] % ENDINGS]);
    FILE *f = fopen(records_path, "wb");
    require(f && fwrite(data + 1, 1, size - 1, f) == size - 1 && fclose(f) == 0);
    const int rc = rt_task_set_read(&s, records_path, &tell, &e);
    require(rc == RT_OK ? s.count > 0 && s.task_count > 0 && s.task_count <= s.count : e.text[0] != 0);
    rt_json_forget();
    if (rc == RT_OK && make_requests(&s, data[0] & 64, &l)) use(&s, &l, data[0] >> 4);
    rt_task_requests_free(&l);
    rt_task_set_free(&s);
    remove(records_path);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
