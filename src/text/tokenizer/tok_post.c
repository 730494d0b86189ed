/* tok_post.c - post-processors of tokenizer.json: which ids go before and after a text.
 *
 * Owns: reading them into one list of ids with a mark for the text. Only what concerns a single text is read: pairs of
 * texts, type ids and offsets are of no use here. Leaves putting the ids there to tokenizer.c. */
#include "text/tokenizer/tok_json.h"

enum { MAX_NESTING = 16 };

/* "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}} */
static int add_special(rt_tokenizer *t, const rt_tok_json *special, rt_tok_text name, const char *where, rt_err *e)
{
    size_t count;
    int rc;
    rt_tok_json entry = { .value = json_object_getn(special->value, name.data, name.len) }, ids;
    if (!entry.value)
        return rt_fail(e, RT_FORMAT, "%s: '%.*s' is not in special_tokens", where, (int)(name.len < 60 ? name.len : 60),
                       name.data);
    memcpy(entry.path, special->path, sizeof entry.path);
    ids = rt_tok_json_member(&entry, "ids");
    RT_TRY(rt_tok_json_array(&ids, &count, e));
    for (size_t i = 0; i < count; i++) {
        rt_tok_json item = rt_tok_json_item(&ids, i);
        uint32_t id;
        RT_TRY(rt_tok_json_uint(&item, &id, e));
        RT_TRY(rt_tok_post_add(t, id, e));
    }
out:
    return rc;
}

static int template_piece(rt_tokenizer *t, const rt_tok_json *piece, const rt_tok_json *special, rt_err *e)
{
    rt_tok_json sequence = rt_tok_json_member(piece, "Sequence"), token = rt_tok_json_member(piece, "SpecialToken");
    rt_tok_json id = rt_tok_json_member(sequence.value ? &sequence : &token, "id");
    rt_tok_text name;
    int rc;
    RT_TRY(rt_tok_json_object(piece, e));
    if (!sequence.value && !token.value)
        return rt_fail(e, RT_FORMAT, "%s: expected \"Sequence\" or \"SpecialToken\"", piece->path);
    RT_TRY(rt_tok_json_string(&id, &name, e));
    if (!sequence.value) return add_special(t, special, name, id.path, e);
    if (!rt_tok_json_is(name, "A")) return rt_fail(e, RT_FORMAT, "%s: a single text is sequence A", id.path);
    rc = rt_tok_post_add(t, RT_TOK_SEQUENCE, e);
out:
    return rc;
}

static int read_template(rt_tokenizer *t, const rt_tok_json *v, rt_err *e)
{
    rt_tok_json single = rt_tok_json_member(v, "single"), special = rt_tok_json_member(v, "special_tokens");
    size_t count;
    int rc;
    RT_TRY(rt_tok_json_array(&single, &count, e));
    RT_TRY(rt_tok_json_object(&special, e));
    if (count == 0) return rt_fail(e, RT_FORMAT, "%s: the template is empty", single.path);
    for (size_t i = 0; i < count; i++) {
        rt_tok_json piece = rt_tok_json_item(&single, i);
        RT_TRY(template_piece(t, &piece, &special, e));
    }
out:
    return rc;
}

/* ["</s>", 2] */
static int add_pair(rt_tokenizer *t, const rt_tok_json *v, const char *key, rt_err *e)
{
    rt_tok_json pair = rt_tok_json_member(v, key), number = rt_tok_json_item(&pair, 1);
    size_t count;
    uint32_t id;
    int rc;
    RT_TRY(rt_tok_json_array(&pair, &count, e));
    if (count != 2) return rt_fail(e, RT_FORMAT, "%s: expected a token and its id", pair.path);
    RT_TRY(rt_tok_json_uint(&number, &id, e));
    RT_TRY(rt_tok_post_add(t, id, e));
out:
    return rc;
}

static int read_classic(rt_tokenizer *t, const rt_tok_json *v, rt_err *e)
{
    int rc;
    RT_TRY(add_pair(t, v, "cls", e));
    RT_TRY(rt_tok_post_add(t, RT_TOK_SEQUENCE, e));
    RT_TRY(add_pair(t, v, "sep", e));
out:
    return rc;
}

int rt_tok_json_post_processor(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e)
{
    rt_tok_text type;
    int rc;
    if (rt_tok_json_none(v)) return RT_OK;
    RT_TRY(rt_tok_json_type(v, &type, e));
    if (rt_tok_json_is(type, "Sequence")) {
        rt_tok_json list = rt_tok_json_member(v, "processors");
        size_t count;
        if (depth >= MAX_NESTING) return rt_fail(e, RT_UNSUPPORTED, "%s: sequences are nested too deeply", v->path);
        RT_TRY(rt_tok_json_array(&list, &count, e));
        for (size_t i = 0; i < count; i++) {
            rt_tok_json item = rt_tok_json_item(&list, i);
            RT_TRY(rt_tok_json_object(&item, e));
            RT_TRY(rt_tok_json_post_processor(t, &item, depth + 1, e));
        }
        return RT_OK;
    }
    if (rt_tok_json_is(type, "ByteLevel")) return RT_OK; /* changes offsets only */
    if (t->post_count > 0)
        return rt_fail(e, RT_UNSUPPORTED, "%s: a second post-processor that adds tokens is not supported", v->path);
    if (rt_tok_json_is(type, "TemplateProcessing")) return read_template(t, v, e);
    if (rt_tok_json_is(type, "BertProcessing") || rt_tok_json_is(type, "RobertaProcessing"))
        return read_classic(t, v, e);
    rc = rt_tok_json_unknown(v, type, "the post-processor", e);
out:
    return rc;
}
