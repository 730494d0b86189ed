/* vllm.c - see vllm.h. */
#include "teacher/remote/vllm.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 4096, NOTHING = -100 }; /* log-probabilities below it are what a mask has left */

/* ---- models ---- */

int rt_vllm_get_model(const char **name, uint32_t *context, const char *want, rt_arena *a, const void *data, size_t len,
                      rt_err *e)
{
    int rc = RT_OK;
    size_t i;
    json_t *one, *found = NULL, *all = rt_json_load(data, len, JSON_ALLOW_NUL, NULL);
    const json_t *list = json_object_get(all, "data");
    json_array_foreach(list, i, one)
    {
        const char *id = json_string_value(json_object_get(one, "id"));
        if (id && (want ? strcmp(id, want) == 0 : i == 0)) found = one;
    }
    if (!json_is_array(list)) RT_TRY(rt_fail(e, RT_FORMAT, "its answer is no list of models"));
    if (!found)
        RT_TRY(rt_fail(e, RT_INVALID, "there is no model %s there, and %zu others; name one with model=",
                       want ? want : "with a name", json_array_size(list)));
    if (!want && json_array_size(list) > 1)
        RT_TRY(rt_fail(e, RT_INVALID, "there are %zu models there; name one with model=", json_array_size(list)));
    const json_int_t most = json_integer_value(json_object_get(found, "max_model_len"));
    *context = most > 0 && most < INT32_MAX ? (uint32_t)most : 0;
    *name = rt_arena_strdup(a, json_string_value(json_object_get(found, "id")));
    if (!*name) RT_TRY(rt_no_memory(e, "a model's name"));
out:
    json_decref(all);
    return rc;
}

/* ---- prompts ---- */

/* The positions [from, end) of those that are asked for lie in one document, which begins at `first` of all. */
typedef struct group {
    uint32_t from, end, first;
} group;

static uint32_t first_of(const rt_wire_question *q, uint32_t position)
{
    return position - position % q->T + (uint32_t)q->start[position];
}

static bool next_group(const rt_wire_question *q, group *g)
{
    if (g->end == q->count) return false;
    g->from = g->end;
    g->first = first_of(q, (uint32_t)q->position[g->from]);
    while (g->end < q->count && first_of(q, (uint32_t)q->position[g->end]) == g->first) g->end++;
    return true;
}

void rt_vllm_put_question(const rt_wire_question *q, const char *model, rt_str *out)
{
    group g = { 0 };
    rt_str_append(out, "{\"model\":");
    if (!rt_json_put_text(out, model, strlen(model))) rt_str_append(out, "\"\"");
    rt_str_printf(
        out, ",\"max_tokens\":1,\"temperature\":0,\"add_special_tokens\":false,\"prompt_logprobs\":%u,\"prompt\":[",
        q->held ? q->held_n : q->n);
    while (next_group(q, &g)) {
        const uint32_t last = (uint32_t)q->position[g.end - 1];
        rt_str_append(out, g.from ? ",[" : "[");
        for (uint32_t i = g.first; i <= last; i++) rt_str_printf(out, "%" PRId32 ",", q->ids[i]);
        rt_str_printf(out, "%" PRId32 "]", q->target[g.end - 1]); /* it is asked what might stand in its place */
    }
    rt_str_append(out, "]}");
}

/* ---- answers ---- */

typedef struct entry {
    int32_t id;
    float logp;
} entry;

static int by_logp(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    if (a->logp != b->logp) return a->logp > b->logp ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int bad(rt_err *e, const char *what) { return rt_fail(e, RT_FORMAT, "its answer is none: %s", what); }

static bool counts(const rt_wire_question *q, uint32_t id)
{
    return !q->mask_words || (id / 32 < q->mask_words && q->mask[id / 32] >> id % 32 & 1);
}

/* Equal, but for a blank before it, which tokenizers of one kind leave out where a token is decoded alone. What holds
 * half a character says nothing. */
static bool same_text(const char *there, size_t n, rt_span here)
{
    if (strstr(there, "\xef\xbf\xbd") || rt_utf8_valid(here.data, here.len) != here.len) return true;
    if (n && *there == ' ' && !(here.len && *here.data == ' ')) there++, n--;
    if (here.len && *here.data == ' ' && !(n && *there == ' ')) here.data++, here.len--;
    return n == here.len && memcmp(there, here.data, n) == 0;
}

static int check_text(const rt_vllm_ids *ids, uint32_t id, const json_t *value, rt_err *e)
{
    rt_span here;
    const json_t *token = json_object_get(value, "decoded_token"); /* it may be the byte 0 */
    const char *there = json_string_value(token);
    if (!there || !ids->text || !ids->text(ids->ctx, id, &here) || same_text(there, json_string_length(token), here))
        return RT_OK;
    int rc = rt_fail(e, RT_INVALID,
                     "another vocabulary: id %u is '%.40s' there, and '%.*s' here; tokenizer=MODEL names "
                     "the teacher's own",
                     id, there, (int)(here.len < 40 ? here.len : 40), here.data);
    if (e) rt_text_tame(e->text);
    return rc;
}

/* What is listed for a token: those that count, best first, and the log-probability of the token that is there. */
static int read_place(const json_t *place, const rt_wire_question *q, const rt_vllm_ids *ids, int32_t target,
                      entry *list, uint32_t *count, float *target_logp, rt_err *e)
{
    const char *key;
    json_t *value;
    uint32_t n = 0;
    bool has_target = false;
    if (!json_is_object(place) || json_object_size(place) > MOST_ENTRIES) return bad(e, "a token has no list of ids");
    json_object_foreach((json_t *)(uintptr_t)place, key, value)
    {
        char *end;
        const unsigned long id = strtoul(key, &end, 10);
        const json_t *logprob = json_object_get(value, "logprob");
        const float logp = (float)json_number_value(logprob);
        const bool plain = *key >= '1' && *key <= '9'; /* "07" would be the id of "7" once more */
        if (!(plain || strcmp(key, "0") == 0) || *end || id > INT32_MAX) return bad(e, "it lists what is no id");
        if (!json_is_number(logprob) || !(logp <= 1e-3f)) return bad(e, "it has log-probabilities that are none");
        if ((int32_t)id == target) has_target = true, *target_logp = logp;
        if (id >= ids->vocab || !counts(q, (uint32_t)id) || logp < NOTHING) continue;
        const int rc = check_text(ids, (uint32_t)id, value, e);
        if (rc < 0) return rc;
        list[n++] = (entry){ (int32_t)id, logp < 0 ? logp : 0 };
    }
    if (!has_target) return bad(e, "it lacks the token of the prompt");
    qsort(list, n, sizeof *list, by_logp);
    *count = n;
    return n ? RT_OK
             : rt_fail(e, RT_INVALID, "none of the ids that it lists counts; ask for more of them (keep=topk:K)");
}

/* The target is listed besides the k likeliest, where it is none of them. */
static int put_place(rt_wire_list *l, uint32_t i, const entry *list, uint32_t count, float target_logp, rt_err *e)
{
    double listed = 0;
    const uint32_t k = count < l->n ? count : l->n;
    for (uint32_t j = 0; j < l->n; j++) {
        l->id[(size_t)i * l->n + j] = j < k ? list[j].id : -1;
        l->logp[(size_t)i * l->n + j] = j < k ? list[j].logp : 0;
        if (j < k) listed += exp((double)list[j].logp);
    }
    if (listed > 1.01) return bad(e, "its probabilities are more than 1 together");
    l->rest[i] = listed < 1 ? (float)(1 - listed) : 0;
    if (l->target_logp) l->target_logp[i] = target_logp;
    return RT_OK;
}

/* The choice of this index; lists need not be in order. */
static const json_t *choice_of(const json_t *choices, uint32_t index)
{
    size_t i;
    json_t *one;
    json_array_foreach(choices, i, one)
    {
        if ((uint64_t)json_integer_value(json_object_get(one, "index")) == index) return one;
    }
    return NULL;
}

static int read_group(rt_wire_answer *a, const rt_wire_question *q, const rt_vllm_ids *ids, const group *g,
                      const json_t *choice, entry *list, rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = 0;
    float target_logp = 0;
    const json_t *places = json_object_get(choice, "prompt_logprobs");
    const uint32_t last = (uint32_t)q->position[g->end - 1];
    if (json_array_size(places) != last - g->first + 2) return bad(e, "it has not a list for each token of the prompt");
    for (uint32_t i = g->from; i < g->end; i++) {
        const json_t *place = json_array_get(places, (uint32_t)q->position[i] - g->first + 1);
        RT_TRY(read_place(place, q, ids, q->target[i], list, &n, &target_logp, e));
        RT_TRY(put_place(&a->list[0], i, list, n, target_logp, e));
    }
out:
    return rc;
}

int rt_vllm_get_answer(rt_wire_answer *a, const rt_wire_question *q, const rt_vllm_ids *ids, const void *data,
                       size_t len, rt_err *e)
{
    int rc;
    group g = { 0 };
    json_t *all = rt_json_load(data, len, JSON_ALLOW_NUL, NULL);
    const json_t *choices = json_object_get(all, "choices");
    entry *list = rt_alloc(MOST_ENTRIES * sizeof *list, 16);
    if (!list) RT_TRY(rt_no_memory(e, "an answer"));
    if (!json_is_array(choices)) RT_TRY(bad(e, "it has no choices"));
    for (uint32_t index = 0; next_group(q, &g); index++)
        RT_TRY(read_group(a, q, ids, &g, choice_of(choices, index), list, e));
    rc = RT_OK;
out:
    rt_free(list);
    json_decref(all);
    return rc;
}
