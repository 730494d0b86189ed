/* tokenizer.c - a tokenizer put together, encoding, and what can be asked of it.
 *
 * Owns: the order of the parts, the post-processor, the identity. Leaves reading to tok_json.c and tok_gguf.c, and the
 * parts to their files. */
#include "text/tokenizer/tok_internal.h"

#include <stdio.h>

rt_tokenizer *rt_tok_new(void)
{
    rt_tokenizer *t = rt_alloc_zero(sizeof *t, 64);
    if (t) t->table = rt_cp_table_new();
    if (t && !t->table) {
        rt_free(t);
        t = NULL;
    }
    return t;
}

void rt_tokenizer_free(rt_tokenizer *t)
{
    if (!t) return;
    for (uint32_t i = 0; i < t->norm_count; i++) rt_tok_pattern_free(&t->norms[i].pattern);
    for (uint32_t i = 0; i < t->pre_count; i++) rt_tok_pattern_free(&t->pres[i].pattern);
    for (uint32_t i = 0; i < t->dec_count; i++) rt_tok_pattern_free(&t->decs[i].pattern);
    rt_tok_trie *tries[] = { t->raw_trie, t->norm_trie };
    for (int i = 0; i < 2; i++) {
        if (tries[i]) rt_free(tries[i]->nodes);
        rt_free(tries[i]);
    }
    rt_free(t->norms);
    rt_free(t->pres);
    rt_free(t->decs);
    rt_free(t->added);
    rt_free(t->post);
    rt_free(t->model.merges);
    rt_free(t->model.score_rank);
    rt_free(t->table);
    rt_tok_vocab_free(&t->vocab);
    rt_free(t);
}

/* ---- building -------------------------------------------------------------------------------------------------------
 */

static int add_step(void **items, uint32_t *count, uint32_t *cap, const void *item, size_t size, const char *where,
                    rt_err *e)
{
    if (*count == RT_TOK_MAX_STEPS)
        return rt_fail(e, RT_UNSUPPORTED, "%s: more than %d steps", where, RT_TOK_MAX_STEPS);
    if (!rt_grow(items, cap, *count + 1, size)) return rt_tok_out_of_memory(e);
    memcpy((char *)*items + *count * size, item, size);
    (*count)++;
    return RT_OK;
}

/* On failure the pattern of the step is still the caller's. */
int rt_tok_norm_add(rt_tokenizer *t, const rt_tok_norm *n, const char *where, rt_err *e)
{
    return add_step((void **)&t->norms, &t->norm_count, &t->norm_cap, n, sizeof *n, where, e);
}

int rt_tok_pre_add(rt_tokenizer *t, const rt_tok_pre *p, const char *where, rt_err *e)
{
    return add_step((void **)&t->pres, &t->pre_count, &t->pre_cap, p, sizeof *p, where, e);
}

int rt_tok_dec_add(rt_tokenizer *t, const rt_tok_dec *d, const char *where, rt_err *e)
{
    return add_step((void **)&t->decs, &t->dec_count, &t->dec_cap, d, sizeof *d, where, e);
}

int rt_tok_post_add(rt_tokenizer *t, uint32_t id, rt_err *e)
{
    if (t->post_count == RT_TOK_MAX_STEPS)
        return rt_fail(e, RT_UNSUPPORTED, "post_processor: more than %d parts", RT_TOK_MAX_STEPS);
    if (!rt_grow((void **)&t->post, &t->post_cap, t->post_count + 1, sizeof *t->post)) return rt_tok_out_of_memory(e);
    t->post[t->post_count++] = id;
    return RT_OK;
}

int rt_tok_added_add(rt_tokenizer *t, const rt_tok_added *a, const char *where, rt_err *e)
{
    rt_tok_vocab *v = &t->vocab;
    if (a->content.len == 0) return RT_OK;
    uint32_t same = rt_tok_map_find(&v->added, v, RT_KEY_TEXT, a->content.data, a->content.len);
    if (same != RT_TOK_NONE) {
        rt_tok_added *old = &t->added[v->entries[same].added - 1];
        if (old->id != a->id)
            return rt_fail(e, RT_FORMAT, "%s: the same text has ids %u and %u", where, old->id, a->id);
        rt_tok_text content = old->content;
        *old = *a;
        old->content = content;
        return RT_OK;
    }
    rt_tok_entry *entry = rt_tok_vocab_at(v, a->id);
    if (!entry || !rt_grow((void **)&t->added, &t->added_cap, t->added_len + 1, sizeof *t->added))
        return rt_tok_out_of_memory(e);
    if (!entry->text.data) {
        entry->text = rt_tok_keep(v, a->content.data, a->content.len);
        if (!entry->text.data) return rt_tok_out_of_memory(e);
        entry->decode = entry->text;
    } else if (entry->text.len != a->content.len || memcmp(entry->text.data, a->content.data, a->content.len) != 0) {
        return rt_fail(e, RT_FORMAT, "%s: id %u belongs to '%.*s' already", where, a->id,
                       (int)(entry->text.len < 60 ? entry->text.len : 60), entry->text.data);
    }
    entry->flags |= RT_TOKEN_ADDED;
    t->added[t->added_len] = *a;
    t->added[t->added_len++].content = entry->text;
    entry->added = t->added_len;
    v->added_count++;
    return rt_tok_map_add(&v->added, v, RT_KEY_TEXT, a->id, e);
}

static rt_tok_trie *trie_of(rt_tok_trie **where)
{
    if (!*where) *where = rt_alloc_zero(sizeof **where, 64);
    return *where;
}

/* The text by which an added token is found, and what the decoders get for it. */
static int normalized_form(rt_tok_scratch *s, rt_tokenizer *t, const rt_tok_added *a, rt_tok_text *form)
{
    *form = a->content;
    if (!a->normalized || t->norm_count == 0) return RT_OK;
    rt_tok_piece p = { a->content.data, a->content.len, rt_utf8_len(a->content.data[0]) };
    s->regex.left += rt_tok_steps(p.len) - RT_TOK_STEPS;
    int rc = rt_tok_normalize(s, &p);
    if (rc < 0) return rc;
    if (p.len == a->content.len && memcmp(p.text, a->content.data, p.len) == 0) return RT_OK;
    *form = rt_tok_keep(&t->vocab, p.text ? p.text : "", p.len);
    if (!form->data) return rt_tok_out_of_memory(s->e);
    t->vocab.entries[a->id].decode = *form;
    return RT_OK;
}

static int finish_added(rt_tokenizer *t, rt_tok_scratch *s)
{
    rt_tok_vocab *v = &t->vocab;
    int rc = RT_OK;
    if (t->added_len == 0) return RT_OK;
    for (uint32_t i = 0; i < t->added_len; i++) {
        const rt_tok_added *a = &t->added[i];
        if (a->special) v->entries[a->id].flags |= RT_TOKEN_SPECIAL;
        rt_tok_text form;
        RT_TRY(normalized_form(s, t, a, &form));
        rt_tok_trie *trie = trie_of(a->normalized ? &t->norm_trie : &t->raw_trie);
        if (!trie) return rt_tok_out_of_memory(s->e);
        RT_TRY(rt_tok_trie_add(trie, form, i, s->e));
    }
    if (t->raw_trie) rt_tok_trie_finish(t->raw_trie);
    if (t->norm_trie) rt_tok_trie_finish(t->norm_trie);
    /* The package looks up what the decoders get among the special spellings; a token that the normalizer changed is
     * usually not among them. */
    for (uint32_t i = 0; i < t->added_len; i++) {
        rt_tok_entry *entry = &v->entries[t->added[i].id];
        if (!t->added[i].special || entry->decode.data == entry->text.data) continue;
        uint32_t other = rt_tok_map_find(&v->added, v, RT_KEY_TEXT, entry->decode.data, entry->decode.len);
        if (other == RT_TOK_NONE || !(v->entries[other].flags & RT_TOKEN_SPECIAL))
            entry->flags &= ~(uint32_t)RT_TOKEN_SPECIAL;
    }
    for (uint32_t i = 0; i < t->added_len; i++)
        if (v->entries[t->added[i].id].flags & RT_TOKEN_SPECIAL) v->special_count++;
out:
    return rc;
}

static int finish_bytes(rt_tokenizer *t, rt_tok_scratch *s)
{
    rt_tok_vocab *v = &t->vocab;
    rt_str bytes = { 0 }, spare = { 0 };
    rt_hasher *h = rt_hasher_new();
    int rc = RT_OK;
    if (!h) return rt_tok_out_of_memory(s->e);
    for (uint32_t id = 0; id < v->size; id++) {
        rt_tok_entry *entry = &v->entries[id];
        if (!entry->text.data || entry->flags & RT_TOKEN_UNUSED) continue; /* padding is not part of the identity */
        bytes.len = 0;
        s->regex.left += rt_tok_steps(entry->decode.len) - RT_TOK_STEPS;
        RT_TRY(rt_tok_token_bytes(t, &s->regex, entry->decode, &bytes, &spare, s->e));
        if (bytes.len == entry->text.len && memcmp(bytes.data ? bytes.data : "", entry->text.data, bytes.len) == 0)
            entry->bytes = entry->text;
        else
            entry->bytes = rt_tok_keep(v, bytes.data ? bytes.data : "", bytes.len);
        if (!entry->bytes.data) RT_TRY(rt_tok_out_of_memory(s->e));
        uint64_t head[2] = { (uint64_t)id << 1 | (entry->flags & RT_TOKEN_SPECIAL ? 1u : 0u), entry->bytes.len };
        rt_hasher_add(h, head, sizeof head);
        rt_hasher_add(h, entry->bytes.data, entry->bytes.len);
    }
    t->hash = rt_hasher_digest(h);
out:
    rt_hasher_free(h);
    rt_str_free(&bytes);
    rt_str_free(&spare);
    return rc;
}

/* Behind each ByteLevel but the last step the text is mapped for the steps that follow. */
static int insert_byte_maps(rt_tokenizer *t, rt_err *e)
{
    for (uint32_t i = 0; i + 1 < t->pre_count; i++) {
        if (t->pres[i].kind != RT_PRE_BYTE_LEVEL) continue;
        rt_tok_pre map = { .kind = RT_PRE_BYTE_MAP };
        int rc = rt_tok_pre_add(t, &map, "pre_tokenizer", e);
        if (rc < 0) return rc;
        memmove(&t->pres[i + 2], &t->pres[i + 1], (t->pre_count - i - 2) * sizeof *t->pres);
        t->pres[i + 1] = map;
    }
    return RT_OK;
}

static int check_post(rt_tokenizer *t, rt_err *e)
{
    const rt_tok_vocab *v = &t->vocab;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < t->post_count; i++) {
        uint32_t id = t->post[i];
        if (id == RT_TOK_SEQUENCE) {
            if (++seen > RT_TOK_MAX_TEXTS)
                return rt_fail(e, RT_UNSUPPORTED, "post_processor: the text more than %d times", RT_TOK_MAX_TEXTS);
            t->suffix_count = 0;
            continue;
        }
        if (id >= v->size || !v->entries[id].text.data)
            return rt_fail(e, RT_FORMAT, "post_processor: id %u is not in the vocabulary", id);
        if (!seen) t->prefix_count++;
        t->suffix_count++;
    }
    if (t->post_count == 0) return RT_OK;
    return seen ? RT_OK : rt_fail(e, RT_FORMAT, "post_processor: the template does not use its text");
}

int rt_tok_finish(rt_tokenizer *t, rt_err *e)
{
    rt_tok_scratch s = { .t = t, .e = e };
    int rc;
    RT_TRY(rt_tok_regex_scratch_new(&s.regex, e));
    RT_TRY(insert_byte_maps(t, e));
    RT_TRY(rt_tok_model_finish(t, e));
    RT_TRY(finish_added(t, &s));
    RT_TRY(finish_bytes(t, &s));
    RT_TRY(check_post(t, e));
out:
    rt_tok_regex_scratch_free(&s.regex);
    rt_str_free(&s.normal[0]);
    rt_str_free(&s.normal[1]);
    rt_free(s.points);
    return rc;
}

/* ---- encoding -------------------------------------------------------------------------------------------------------
 */

int rt_tok_scratch_new(rt_tok_scratch **out, const rt_tokenizer *t, rt_err *e)
{
    int rc;
    rt_tok_scratch *s = rt_alloc_zero(sizeof *s, 64);
    *out = NULL;
    if (!s) return rt_tok_out_of_memory(e);
    s->t = t;
    s->word_slots = RT_WORD_FIRST_SLOTS;
    s->words = rt_alloc_zero(RT_WORD_FIRST_SLOTS * sizeof *s->words, 64);
    if (t->pre_count > 0) s->step = rt_alloc_zero(t->pre_count * sizeof *s->step, 64);
    if (!s->words || (t->pre_count > 0 && !s->step)) RT_TRY(rt_tok_out_of_memory(e));
    RT_TRY(rt_tok_regex_scratch_new(&s->regex, e));
    *out = s;
    return RT_OK;
out:
    rt_tok_scratch_free(s);
    return rc;
}

void rt_tok_scratch_free(rt_tok_scratch *s)
{
    if (!s) return;
    for (uint32_t i = 0; s->step && i < s->t->pre_count; i++) rt_str_free(&s->step[i]);
    rt_str *strings[] = { &s->repaired, &s->normal[0], &s->normal[1], &s->mapped, &s->spelled_bytes };
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) rt_str_free(strings[i]);
    rt_tok_regex_scratch_free(&s->regex);
    rt_free(s->step);
    rt_free(s->words);
    rt_free(s->syms);
    rt_free(s->heap);
    rt_free(s->points);
    rt_free(s);
}

/* A part between added tokens found as spelled. */
static int encode_part(rt_tok_scratch *s, rt_tok_piece p)
{
    int rc = rt_tok_normalize(s, &p);
    if (rc < 0 || p.len == 0) return rc;
    if (!s->t->norm_trie) return rt_tok_pretokenize(s, p);
    return rt_tok_added_split(s, s->t->norm_trie, p, rt_tok_pretokenize);
}

/* Out of a failed allocation a string is left marked; the next text starts afresh. */
static void reset(rt_tok_scratch *s)
{
    rt_str *strings[] = { &s->repaired, &s->normal[0], &s->normal[1], &s->mapped, &s->spelled_bytes };
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        strings[i]->len = 0;
        strings[i]->failed = false;
    }
    for (uint32_t i = 0; i < s->t->pre_count; i++) s->step[i].failed = false;
}

static int encode_text(rt_tok_scratch *s, const char *text, size_t len)
{
    if (rt_utf8_valid(text, len) != len) {
        rt_utf8_repair(text, len, &s->repaired);
        if (s->repaired.failed) return rt_tok_out_of_memory(s->e);
        text = s->repaired.data;
        len = s->repaired.len;
    }
    if (len == 0) return RT_OK;
    rt_tok_piece p = { text, len, rt_utf8_len(text[0]) };
    return rt_tok_added_split(s, s->t->raw_trie, p, encode_part);
}

int rt_tokenizer_encode(const rt_tokenizer *t, rt_tok_scratch *s, const char *text, size_t len, unsigned flags,
                        rt_tok_ids *out, rt_err *e)
{
    int rc = RT_OK;
    uint32_t before = out->count, start = 0, length = 0;
    bool done = false;
    s->out = out;
    s->e = e;
    s->flags = flags;
    reset(s);
    s->regex.left = rt_tok_steps(len);
    s->given = len;
    s->made = 0;
    if (t->post_count == 0) RT_TRY(encode_text(s, text, len));
    for (uint32_t i = 0; i < t->post_count; i++) {
        if (t->post[i] != RT_TOK_SEQUENCE) {
            if (flags & RT_ENCODE_SPECIAL) RT_TRY(rt_tok_emit(s, t->post[i]));
        } else if (!done) {
            start = out->count;
            RT_TRY(encode_text(s, text, len));
            length = out->count - start;
            done = true;
        } else {
            for (uint32_t k = 0; k < length; k++) RT_TRY(rt_tok_emit(s, out->ids[start + k]));
        }
    }
out:
    if (rc < 0) out->count = before;
    return rc;
}

/* ---- questions ------------------------------------------------------------------------------------------------------
 */

uint32_t rt_tokenizer_size(const rt_tokenizer *t) { return t->vocab.size; }

bool rt_tokenizer_token(const rt_tokenizer *t, uint32_t id, rt_token_info *out)
{
    if (id >= t->vocab.size) return false;
    const rt_tok_entry *entry = &t->vocab.entries[id];
    if (!entry->text.data || (entry->flags & RT_TOKEN_UNUSED)) return false;
    *out = (rt_token_info){ .text = entry->text,
                            .bytes = entry->bytes,
                            .special = entry->flags & RT_TOKEN_SPECIAL,
                            .added = entry->flags & RT_TOKEN_ADDED };
    return true;
}

int64_t rt_tokenizer_find(const rt_tokenizer *t, const char *text, size_t len)
{
    uint32_t id = rt_tok_map_find(&t->vocab.added, &t->vocab, RT_KEY_TEXT, text, len);
    if (id == RT_TOK_NONE) id = rt_tok_vocab_find(&t->vocab, text, len);
    return id == RT_TOK_NONE ? -1 : (int64_t)id;
}

const uint32_t *rt_tokenizer_prefix(const rt_tokenizer *t, uint32_t *count)
{
    *count = t->prefix_count;
    return t->post;
}

const uint32_t *rt_tokenizer_suffix(const rt_tokenizer *t, uint32_t *count)
{
    *count = t->suffix_count;
    return t->post ? t->post + t->post_count - t->suffix_count : NULL;
}

rt_hash128 rt_tokenizer_hash(const rt_tokenizer *t) { return t->hash; }

void rt_tokenizer_describe(const rt_tokenizer *t, rt_str *out)
{
    const rt_tok_model *m = &t->model;
    rt_str_printf(out, "%s, %s, %u tokens", m->spm ? "SentencePiece with scores" : "BPE",
                  m->byte_level                ? "byte-level"
                  : m->byte_fallback || m->spm ? "byte fallback"
                                               : "characters",
                  t->vocab.model_count);
    if (t->vocab.added_count)
        rt_str_printf(out, ", %u added (%u special)", t->vocab.added_count, t->vocab.special_count);
}
