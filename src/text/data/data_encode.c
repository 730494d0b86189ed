/* data_encode.c - a record as ids, and which of them are trained.
 *
 * Owns: what is put before and behind a text, masks of completions and of assistant turns, the places where a
 * conversation may end. A conversation is rendered and tokenized as one text, as transformers does it, without adding
 * BOS or EOS to what the template prints. */
#include "text/data/data_internal.h"

#include "base/json.h"

#include <string.h>

struct rt_encoder {
    const rt_data_text *text;
    rt_data_loss loss;
    rt_tok_scratch *scratch;
    rt_align align;
    rt_jinja_result rendered, part;
    rt_align_mark *marks;
    uint32_t marks_cap;
    rt_str joined;
    char *eot_text; /* what the template prints at the end of a turn; null: not known */
    rt_tok_text bos_text;
};

int rt_encoder_new(rt_encoder **out, const rt_data_text *text, rt_data_loss loss, rt_err *e)
{
    rt_encoder *x = rt_alloc_zero(sizeof *x, 64);
    rt_token_info info;
    int rc;
    *out = NULL;
    if (!x) return rt_no_memory(e, "the tokens of a record");
    rt_json_init();
    x->text = text;
    x->loss = loss;
    RT_TRY(rt_tok_scratch_new(&x->scratch, text->tok, e));
    x->align = (rt_align){ .tok = text->tok, .scratch = x->scratch };
    int64_t eot = text->eot >= 0 ? text->eot : text->eos;
    if (eot >= 0 && eot <= UINT32_MAX && rt_tokenizer_token(text->tok, (uint32_t)eot, &info)) {
        x->eot_text = rt_alloc_zero(info.text.len + 1, 16);
        if (!x->eot_text) RT_TRY(rt_no_memory(e, "the tokens of a record"));
        memcpy(x->eot_text, info.text.data, info.text.len);
    }
    if (text->bos >= 0 && text->bos <= UINT32_MAX && rt_tokenizer_token(text->tok, (uint32_t)text->bos, &info))
        x->bos_text = info.text;
    *out = x;
    return RT_OK;
out:
    rt_encoder_free(x);
    return rc;
}

void rt_encoder_free(rt_encoder *x)
{
    if (!x) return;
    rt_tok_scratch_free(x->scratch);
    rt_free(x->align.spare.ids);
    rt_jinja_result_free(&x->rendered);
    rt_jinja_result_free(&x->part);
    rt_free(x->marks);
    rt_str_free(&x->joined);
    rt_free(x->eot_text);
    rt_free(x);
}

void rt_encoded_free(rt_encoded *r)
{
    if (!r) return;
    rt_free(r->ids.ids);
    rt_free(r->target);
    rt_free(r->stop);
    *r = (rt_encoded){ 0 };
}

static void begin(rt_encoded *r, rt_record_kind kind)
{
    r->kind = kind;
    r->ids.count = 0;
    r->all_targets = r->has_stops = r->fatal = false;
    r->odd = (rt_data_odd){ 0 };
    r->trained = 0;
}

/* ---- bits ---- */

/* Room for a bit per token, all clear. */
static int clear_bits(rt_encoded *r, rt_err *e)
{
    uint32_t words = r->ids.count / 32 + 1;
    if (words > r->bits_cap) {
        uint32_t *both[2] = { NULL, NULL };
        uint32_t cap = words + words / 2;
        for (int i = 0; i < 2; i++) both[i] = rt_alloc(cap * sizeof **both, 64);
        if (!both[0] || !both[1]) {
            rt_free(both[0]);
            rt_free(both[1]);
            return rt_no_memory(e, "the tokens of a record");
        }
        rt_free(r->target);
        rt_free(r->stop);
        r->target = both[0];
        r->stop = both[1];
        r->bits_cap = cap;
    }
    memset(r->target, 0, words * sizeof *r->target);
    memset(r->stop, 0, words * sizeof *r->stop);
    return RT_OK;
}

static void set_bit(uint32_t *bits, uint32_t i) { bits[i / 32] |= 1u << (i % 32); }

static void train(rt_encoded *r, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        if (!rt_bit(r->target, i) && i > 0) r->trained++;
        set_bit(r->target, i);
    }
}

static void train_all(rt_encoded *r)
{
    r->all_targets = true;
    r->trained = r->ids.count ? r->ids.count - 1 : 0;
}

/* ---- texts ---- */

static int push(rt_tok_ids *ids, uint32_t id, rt_err *e)
{
    if (ids->count == UINT32_MAX || !rt_grow((void **)&ids->ids, &ids->cap, ids->count + 1, sizeof *ids->ids))
        return rt_no_memory(e, "the tokens of a record");
    ids->ids[ids->count++] = id;
    return RT_OK;
}

/* The end of a text: what the tokenizer adds, and the end-of-text token if that was not it. */
static int push_end(rt_encoder *x, rt_encoded *r, rt_err *e)
{
    uint32_t n;
    const uint32_t *suffix = rt_tokenizer_suffix(x->text->tok, &n);
    int rc = RT_OK;
    if (x->text->eos < 0) {
        r->fatal = true;
        return rt_fail(e, RT_INVALID,
                       "which token ends a text is not known for this tokenizer; name it with --eos, for "
                       "example --eos '<|endoftext|>'");
    }
    for (uint32_t i = 0; i < n; i++) RT_TRY(push(&r->ids, suffix[i], e));
    if (n == 0 || suffix[n - 1] != (uint32_t)x->text->eos) RT_TRY(push(&r->ids, (uint32_t)x->text->eos, e));
out:
    return rc;
}

/* BOS as the tokenizer adds it, unless the text spells it itself. */
static int push_begin(rt_encoder *x, const char *text, size_t len, rt_encoded *r, rt_err *e)
{
    uint32_t n;
    const uint32_t *prefix = rt_tokenizer_prefix(x->text->tok, &n);
    size_t bos = x->bos_text.len;
    int rc = RT_OK;
    if (bos && len >= bos && memcmp(text, x->bos_text.data, bos) == 0 && n == 1 && prefix[0] == (uint32_t)x->text->bos)
        return RT_OK;
    for (uint32_t i = 0; i < n; i++) RT_TRY(push(&r->ids, prefix[i], e));
out:
    return rc;
}

int rt_encoder_text(rt_encoder *x, const char *text, size_t len, unsigned parts, rt_encoded *r, rt_err *e)
{
    int rc;
    begin(r, RT_RECORD_TEXT);
    if (parts & RT_PART_FIRST) RT_TRY(push_begin(x, text, len, r, e));
    RT_TRY(rt_tokenizer_encode(x->text->tok, x->scratch, text, len, 0, &r->ids, e));
    if (parts & RT_PART_LAST) RT_TRY(push_end(x, r, e));
    train_all(r);
    /* Of a later part the first token has one before it. */
    if (!(parts & RT_PART_FIRST)) r->trained = r->ids.count;
out:
    return rc;
}

int rt_encoder_can_cut(rt_encoder *x, bool *can, rt_err *e)
{
    static const char *const pairs[][2] = { { "the end.\n", "The next" }, { "a\n\n", "b" },   { "x \r\n", "\xD0\x96" },
                                            { "1\n", "\xE4\xB8\xAD" },    { "  \n", "word" }, { "\t\n\n\n", "I'm" } };
    rt_tok_ids whole = { 0 }, parts = { 0 };
    int rc = RT_OK;
    *can = true;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char both[64];
        size_t a = strlen(pairs[i][0]), b = strlen(pairs[i][1]);
        memcpy(both, pairs[i][0], a);
        memcpy(both + a, pairs[i][1], b);
        whole.count = parts.count = 0;
        RT_TRY(rt_tokenizer_encode(x->text->tok, x->scratch, both, a + b, 0, &whole, e));
        RT_TRY(rt_tokenizer_encode(x->text->tok, x->scratch, both, a, 0, &parts, e));
        RT_TRY(rt_tokenizer_encode(x->text->tok, x->scratch, both + a, b, 0, &parts, e));
        *can = *can && whole.count == parts.count && !memcmp(whole.ids, parts.ids, whole.count * sizeof *whole.ids);
    }
out:
    rt_free(whole.ids);
    rt_free(parts.ids);
    return rc;
}

static int encode_completion(rt_encoder *x, const rt_record *rec, rt_encoded *r, rt_err *e)
{
    int rc;
    rt_tok_ids body = { 0 };
    rt_align_mark mark = { .at = rec->prompt_len };
    x->joined.len = 0;
    x->joined.failed = false;
    rt_str_append_n(&x->joined, rec->prompt, rec->prompt_len);
    rt_str_append_n(&x->joined, rec->completion, rec->completion_len);
    if (x->joined.failed) return rt_no_memory(e, "the tokens of a record");
    RT_TRY(push_begin(x, x->joined.data, x->joined.len, r, e));
    uint32_t before = r->ids.count;
    RT_TRY(rt_tokenizer_encode(x->text->tok, x->scratch, x->joined.data, x->joined.len, 0, &r->ids, e));
    /* Of an empty record there may be no array at all. */
    body = (rt_tok_ids){ .ids = before ? r->ids.ids + before : r->ids.ids, .count = r->ids.count - before };
    RT_TRY(rt_align_tokens(&x->align, x->joined.data, x->joined.len, &body, &mark, 1, e));
    RT_TRY(push_end(x, r, e));
    RT_TRY(clear_bits(r, e));
    /* " positive" after a prompt that ends in a space is what is to be learnt. */
    r->odd.answers_empty = rec->completion_len == 0;
    if (mark.across < mark.token && !mark.blank) r->odd.completions_inside = 1;
    if (x->loss == RT_LOSS_ALL)
        train_all(r);
    else
        train(r, before + (mark.blank ? mark.across : mark.token), r->ids.count);
out:
    return rc;
}

/* ---- conversations ---- */

static int grow_marks(rt_encoder *x, uint32_t n, rt_err *e)
{
    return rt_grow((void **)&x->marks, &x->marks_cap, n, sizeof *x->marks) ? RT_OK
                                                                           : rt_no_memory(e, "the tokens of a record");
}

/* Whether the conversation without what follows the turn that ends at `end` is rendered as the beginning of the whole.
 * Templates that mark turns themselves are asked; of the others rt_chat_mask has proved it. */
static int is_stop(rt_encoder *x, const rt_record *rec, const rt_chat_options *o, uint32_t turn, size_t end, bool *is,
                   rt_err *e)
{
    size_t seen = 0, n = json_array_size(rec->messages), head = 0;
    *is = true;
    if (!rt_chat_template_has_generation(x->text->tmpl) || turn + 1 == x->rendered.n_ranges) return RT_OK;
    for (size_t i = 0; i < n && seen <= turn; i++) {
        const char *role = json_string_value(json_object_get(json_array_get(rec->messages, i), "role"));
        if (role && strcmp(role, "assistant") == 0 && seen++ == turn) head = i + 1;
    }
    *is = false;
    if (head == 0) return RT_OK;
    json_t *few = json_array();
    for (size_t i = 0; few && i < head; i++)
        if (json_array_append(few, json_array_get(rec->messages, i)) < 0) {
            json_decref(few);
            few = NULL;
        }
    if (!few) return rt_no_memory(e, "the tokens of a record");
    int rc = rt_chat_render(x->text->tmpl, few, o, &x->part, e);
    json_decref(few);
    if (rc == RT_INVALID) return RT_OK; /* it refuses to end there */
    if (rc < 0) return rc;
    const rt_str *part = &x->part.text, *whole = &x->rendered.text;
    if (part->len < end || part->len > whole->len || memcmp(part->data, whole->data, part->len) != 0) return RT_OK;
    *is = strspn(part->data + end, " \t\r\n") == part->len - end;
    return RT_OK;
}

static int check_end(rt_encoder *x, rt_encoded *r, rt_err *e)
{
    rt_token_info info;
    uint32_t last = r->ids.count;
    while (last > 0 && !rt_bit(r->target, last - 1)) last--;
    if (last == 0) return RT_OK; /* nothing is trained; that is counted */
    int64_t id = r->ids.ids[last - 1], eot = x->text->eot, eos = x->text->eos;
    if (id == eot || id == eos) return RT_OK;
    r->fatal = true;
    if (eot < 0 && eos < 0)
        return rt_fail(e, RT_INVALID, "which token ends a turn is not known for this tokenizer; name it with --eos");
    bool known = rt_tokenizer_token(x->text->tok, (uint32_t)id, &info);
    return rt_fail(
        e, RT_INVALID,
        "what is trained of the last turn ends with token %lld ('%.*s') and not with the end-of-turn token "
        "'%s', so a model would never learn to stop; give a template whose {%% generation %%} block includes "
        "it with --chat-template",
        (long long)id, known ? (int)(info.bytes.len < 40 ? info.bytes.len : 40) : 0, known ? info.bytes.data : "",
        x->eot_text ? x->eot_text : "?");
}

/* The ranges are the turns of the assistant, one after the other, where some of these are not to be trained. */
static int check_turns(const rt_record *rec, const rt_jinja_result *t, rt_err *e)
{
    uint32_t turns = 0;
    if (!rec->some_untrained || t->n_ranges == 0) return RT_OK;
    for (size_t i = 0; i < json_array_size(rec->messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(rec->messages, i), "role"));
        turns += role && strcmp(role, "assistant") == 0;
    }
    if (turns == t->n_ranges) return RT_OK;
    return rt_fail(
        e, RT_INVALID,
        "the chat template marks %u parts of a conversation with %u turns of the assistant, so which of them "
        "is not to be trained cannot be told; --chat-template FILE names another",
        t->n_ranges, turns);
}

/* Tokens of the ranges, and the ends of turns. */
static int mark_turns(rt_encoder *x, const rt_record *rec, const rt_chat_options *o, rt_encoded *r, rt_err *e)
{
    const rt_jinja_result *t = &x->rendered;
    int rc;
    if (t->n_ranges > UINT32_MAX / 4) return rt_no_memory(e, "the tokens of a record");
    RT_TRY(check_turns(rec, t, e));
    RT_TRY(grow_marks(x, 2 * t->n_ranges + 1, e));
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        x->marks[2 * i] = (rt_align_mark){ .at = t->ranges[i].begin };
        x->marks[2 * i + 1] = (rt_align_mark){ .at = t->ranges[i].end, .end = true };
    }
    RT_TRY(rt_align_tokens(&x->align, t->text.data, t->text.len, &r->ids, x->marks, 2 * t->n_ranges, e));
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        uint32_t first = x->marks[2 * i].token, end = x->marks[2 * i + 1].token;
        bool stop = false;
        if (first >= end || (i < rec->turn_count && !rec->trained[i])) continue;
        train(r, first, end);
        r->odd.turns_inside += x->marks[2 * i].across < first;
        RT_TRY(is_stop(x, rec, o, i, t->ranges[i].end, &stop, e));
        if (!stop) continue;
        set_bit(r->stop, end - 1);
        r->has_stops = true;
    }
    if (x->loss == RT_LOSS_ALL)
        train_all(r);
    else
        RT_TRY(check_end(x, r, e));
out:
    return rc;
}

static int encode_chat(rt_encoder *x, const rt_record *rec, rt_encoded *r, rt_err *e)
{
    const rt_data_text *t = x->text;
    rt_chat_options o = { .tools = rec->tools,
                          .special = t->special,
                          .extra = t->extra,
                          .end_of_turn = x->eot_text,
                          .now = t->now,
                          .utc_offset = t->utc_offset };
    int rc;
    if (!t->tmpl) {
        r->fatal = true;
        return rt_fail(e, RT_INVALID,
                       "a conversation, and the model has no chat template; name one with "
                       "--chat-template FILE");
    }
    RT_TRY(rt_turns_check_roles(rec->messages, t->tmpl, e));
    rc = rt_chat_mask(t->tmpl, rec->messages, &o, &x->rendered, e);
    /* Where everything is trained, turns are needed only to cut at. */
    if (rc == RT_INVALID && x->loss == RT_LOSS_ALL) {
        rc = rt_chat_render(t->tmpl, rec->messages, &o, &x->rendered, e);
        x->rendered.n_ranges = 0;
    }
    if (rc < 0) return rt_calls_explain(rec, rc, e);
    r->odd.answers_empty = rt_turns_empty(rec);
    RT_TRY(rt_calls_check(t->tmpl, rec, &o, &x->rendered.text, &x->part, &r->odd, e));
    RT_TRY(rt_tokenizer_encode(t->tok, x->scratch, x->rendered.text.data ? x->rendered.text.data : "",
                               x->rendered.text.len, 0, &r->ids, e));
    RT_TRY(clear_bits(r, e));
    RT_TRY(mark_turns(x, rec, &o, r, e));
out:
    return rc;
}

int rt_encoder_json(rt_encoder *x, const char *json, size_t len, rt_encoded *r, rt_err *e)
{
    rt_record rec;
    begin(r, RT_RECORD_TEXT);
    int rc = rt_record_parse(&rec, json, len, x->text->columns, x->text->tmpl != NULL, e);
    if (rc < 0) return rc;
    begin(r, rec.kind);
    switch (rec.kind) {
    case RT_RECORD_TEXT: rc = rt_encoder_text(x, rec.text, rec.text_len, RT_PART_WHOLE, r, e); break;
    case RT_RECORD_COMPLETION: rc = encode_completion(x, &rec, r, e); break;
    case RT_RECORD_CHAT: rc = encode_chat(x, &rec, r, e); break;
    }
    rt_record_free(&rec);
    return rc;
}
