/* cmd_tokenize.c - `retort tokenize`: flags, the tokenizer in use, and one text from standard input to ids and back.
 *
 * Data are for tokenize_run.c. */
#include "cli/tokenize.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/model_arg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_INPUT = 1 << 30, MOST_TEMPLATE = 16 << 20 };

/* ---- the tokenizer ---- */

/* A value is JSON where it is that (false, 3, "x"), else a text. */
static int read_vars(json_t **out, const rt_words *vars, rt_err *e)
{
    if (vars->count == 0) return RT_OK;
    json_t *object = json_object();
    *out = object;
    for (uint32_t i = 0; object && i < vars->count; i++) {
        const char *text = vars->text[i], *eq = strchr(text, '=');
        char key[100];
        if (!eq || eq == text || (size_t)(eq - text) >= sizeof key)
            return rt_fail(e, RT_USAGE, "retort tokenize: --template-var takes NAME=VALUE, not '%s'", text);
        snprintf(key, sizeof key, "%.*s", (int)(eq - text), text);
        json_t *value = json_loads(eq + 1, JSON_DECODE_ANY, NULL);
        if (!value) value = json_string(eq + 1);
        if (!value) return rt_fail(e, RT_USAGE, "retort tokenize: --template-var %s is not valid UTF-8", key);
        if (json_object_set_new(object, key, value) < 0) object = NULL;
    }
    return object ? RT_OK : rt_fail(e, RT_NOMEM, "out of memory for the variables of a template");
}

static int read_template(rt_tokenize_text *t, const char *path, rt_err *e)
{
    rt_str text = { 0 };
    int rc;
    RT_TRY(rt_file_read(path, MOST_TEMPLATE, &text, e));
    rc = rt_chat_template_new(&t->tmpl, text.data ? text.data : "", text.len, e);
    if (rc < 0) rt_err_context(e, "%s", path);
    rt_hash_text(t->template_hash, rt_hash(text.data, text.len));
out:
    rt_str_free(&text);
    return rc;
}

/* Some templates print the date; a moment that is given makes the output repeatable. */
static void set_clock(rt_data_text *t, uint64_t given)
{
    time_t now = given ? (time_t)given : time(NULL);
    struct tm local;
    t->now = now;
    if (localtime_r(&now, &local)) t->utc_offset = (int32_t)local.tm_gmtoff;
}

static int set_eos(rt_data_text *t, const char *eos, rt_err *e)
{
    if (!eos) return RT_OK;
    int64_t id = rt_tokenizer_find(t->tok, eos, strlen(eos));
    if (id < 0) return rt_fail(e, RT_INVALID, "--eos '%s' is not a token of this tokenizer", eos);
    if (t->eot == t->eos) t->eot = id;
    t->eos = id;
    return RT_OK;
}

int rt_tokenize_text_open(rt_tokenize_text *t, const rt_tokenize_request *q, rt_err *e)
{
    rt_hub_env env = rt_hub_env_get();
    int rc;
    *t = (rt_tokenize_text){ .text = { .bos = -1, .eos = -1, .eot = -1 } };
    if (!q->model) return RT_OK;
    RT_TRY(rt_text_open(&t->source, q->model, &env, e));
    if (q->template_file) RT_TRY(read_template(t, q->template_file, e));
    RT_TRY(read_vars(&t->extra, &q->vars, e));
    RT_TRY(rt_data_text_from(&t->text, t->source, t->tmpl, e));
    t->text.extra = t->extra;
    set_clock(&t->text, q->now);
    RT_TRY(set_eos(&t->text, q->eos, e));
out:
    if (rc < 0) rt_tokenize_text_close(t);
    return rc;
}

void rt_tokenize_text_close(rt_tokenize_text *t)
{
    rt_chat_template_free(t->tmpl);
    rt_text_close(t->source);
    json_decref(t->extra);
    *t = (rt_tokenize_text){ 0 };
}

/* ---- one text ---- */

static int read_input(rt_str *text, rt_err *e)
{
    char block[1 << 16];
    for (size_t n; (n = fread(block, 1, sizeof block, stdin)) > 0;) {
        rt_str_append_n(text, block, n);
        if (text->failed) return rt_fail(e, RT_NOMEM, "out of memory for standard input");
        if (text->len > MOST_INPUT) return rt_fail(e, RT_INVALID, "more than 1 GiB on standard input");
    }
    if (ferror(stdin)) return rt_fail(e, RT_IO, "could not read standard input: %s", strerror(errno));
    return RT_OK;
}

static int print_ids(const rt_tokenize_request *q, const rt_tokenizer *t, const rt_str *text, rt_err *e)
{
    rt_tok_scratch *scratch = NULL;
    rt_tok_ids ids = { 0 };
    int rc;
    RT_TRY(rt_tok_scratch_new(&scratch, t, e));
    RT_TRY(rt_tokenizer_encode(t, scratch, text->data ? text->data : "", text->len,
                               q->no_special ? 0 : RT_ENCODE_SPECIAL, &ids, e));
    for (uint32_t i = 0; i < ids.count; i++) printf(i ? " %u" : "%u", ids.ids[i]);
    putchar('\n');
out:
    rt_free(ids.ids);
    rt_tok_scratch_free(scratch);
    return rc;
}

static int print_text(const rt_tokenize_request *q, const rt_tokenizer *t, const rt_str *text, rt_err *e)
{
    rt_tok_stream *stream = NULL;
    rt_str out = { 0 };
    const char *p = text->data ? text->data : "", *end = p + text->len;
    int rc;
    RT_TRY(rt_tok_stream_new(&stream, t, q->no_special ? RT_DECODE_SKIP_SPECIAL : 0, e));
    for (uint64_t n = 0; p < end; n++) {
        uint64_t id = 0;
        const char *word = p;
        for (; p < end && *p >= '0' && *p <= '9' && id <= UINT32_MAX; p++) id = 10 * id + (uint64_t)(*p - '0');
        if (p > word && (id > UINT32_MAX || (p < end && *p >= '0' && *p <= '9')))
            RT_TRY(rt_fail(e, RT_INVALID, "standard input: number %llu is too large for an id", (unsigned long long)n));
        if (p > word) {
            rc = rt_tok_stream_push(stream, (uint32_t)id, &out, e);
            if (rc < 0) rt_err_context(e, "standard input");
            RT_TRY(rc);
        } else if (!strchr(" \t\r\n,[]", *p) || !*p) {
            RT_TRY(rt_fail(e, RT_INVALID, "standard input: '%c' at byte %llu; ids are numbers separated by blanks",
                           *p > ' ' && *p < 127 ? *p : '?', (unsigned long long)(p - text->data)));
        } else {
            p++;
        }
    }
    RT_TRY(rt_tok_stream_end(stream, &out, e));
    if (out.len && fwrite(out.data, 1, out.len, stdout) != out.len)
        RT_TRY(rt_fail(e, RT_IO, "could not write to standard output: %s", strerror(errno)));
out:
    rt_tok_stream_free(stream);
    rt_str_free(&out);
    return rc;
}

static int one_text(const rt_tokenize_request *q, rt_err *e)
{
    rt_tokenize_text t = { 0 };
    rt_str text = { 0 };
    int rc;
    if (q->data.count)
        return rt_fail(e, RT_USAGE, "retort tokenize: --ids and --decode read standard input, not files");
    if (q->ids && q->decode) return rt_fail(e, RT_USAGE, "retort tokenize: --ids and --decode are two ways; take one");
    if (!q->model) return rt_fail(e, RT_USAGE, "retort tokenize: --model is missing");
    RT_TRY(rt_tokenize_text_open(&t, q, e));
    RT_TRY(read_input(&text, e));
    rc = q->ids ? print_ids(q, t.text.tok, &text, e) : print_text(q, t.text.tok, &text, e);
out:
    rt_str_free(&text);
    rt_tokenize_text_close(&t);
    return rc;
}

/* ---- the command ---- */

static int run(const rt_tokenize_request *q, rt_err *e)
{
    if (q->loss_name && strcmp(q->loss_name, "turns") != 0 && strcmp(q->loss_name, "all") != 0)
        return rt_fail(e, RT_USAGE, "retort tokenize: --loss is turns or all, not '%s'", q->loss_name);
    if (q->ids || q->decode) return one_text(q, e);
    if (q->no_special) return rt_fail(e, RT_USAGE, "retort tokenize: --no-special goes with --ids and --decode");
    if (q->data.count == 0) return rt_fail(e, RT_USAGE, "retort tokenize: no data were named; see --help");
    return rt_tokenize_data(q, e);
}

int rt_cmd_tokenize(int argc, char **argv, rt_err *e)
{
    rt_tokenize_request *q = rt_alloc_zero(sizeof *q, 16);
    bool help;
    if (!q) return rt_fail(e, RT_NOMEM, "out of memory");
    const rt_flag flags[] = {
        { "--model", RT_FLAG_TEXT, &q->model, "M", "a model, a tokenizer.json, or a GGUF with a vocabulary" },
        { "-o", RT_FLAG_TEXT, &q->out, "OUT", "write token shards: a directory, or one file OUT.rtok" },
        { "--show", RT_FLAG_WHOLE, &q->show, "N", "print N records, what is trained in colour or ⟦brackets⟧" },
        { "--seq-len", RT_FLAG_COUNT, &q->seq_len, "T", "say what rows of T tokens would cut and drop" },
        { "--loss", RT_FLAG_TEXT, &q->loss_name, "WHAT",
          "turns (default): completions and assistants; all: everything" },
        { "--chat-template", RT_FLAG_TEXT, &q->template_file, "FILE", "a template to use instead of the model's" },
        { "--template-var", RT_FLAG_LIST, &q->vars, "K=V", "a variable for it, such as enable_thinking=false" },
        { "--now", RT_FLAG_WHOLE, &q->now, "SECONDS", "the date for templates that print one (default: the clock)" },
        { "--eos", RT_FLAG_TEXT, &q->eos, "TOKEN", "the token that ends a text, where the model does not say" },
        { "--skip-bad", RT_FLAG_WHOLE, &q->skip_bad, "N",
          "skip up to N broken records (default: 0, stop at the first)" },
        { "--allow-drop", RT_FLAG_BOOL, &q->allow_drop, NULL, "allow more than 5 % of the records to be dropped" },
        { "--shard-tokens", RT_FLAG_WHOLE, &q->shard_tokens, "N", "tokens in a shard (default: 268435456)" },
        { "--vocab", RT_FLAG_COUNT, &q->vocab, "N", "vocabulary of shards that do not say theirs" },
        { "--verify", RT_FLAG_BOOL, &q->verify, NULL, "of shards: check every id and the hash" },
        { "--force", RT_FLAG_BOOL, &q->force, NULL, "replace OUT.rtok when it is there" },
        { "--threads", RT_FLAG_COUNT, &q->threads, "N", "threads (default: cores this process may use)" },
        { "--ids", RT_FLAG_BOOL, &q->ids, NULL, "one text from standard input, its ids on standard output" },
        { "--decode", RT_FLAG_BOOL, &q->decode, NULL, "ids from standard input, their text on standard output" },
        { "--no-special", RT_FLAG_BOOL, &q->no_special, NULL,
          "--ids: add no BOS or EOS; --decode: leave special ids out" },
        { "--json", RT_FLAG_BOOL, &q->json, NULL, "the report as JSON" },
        { 0 },
    };
    const rt_command c = {
        .name = "tokenize",
        .usage = "retort tokenize DATA... --model M [-o OUT] [flags]",
        .text = "Turns text into token shards with a mask of what is trained. DATA is JSONL, JSON, text (.gz or\n"
                ".zst too), a directory, a pattern, org/name in the Hugging Face cache, or token shards to look at.\n"
                "Records are `text`, `prompt` and `completion`, `messages`, `conversations`, or `instruction`,\n"
                "`input` and `output`.",
        .example = "retort tokenize chats.jsonl --model Qwen/Qwen2.5-0.5B-Instruct --show 2",
        .flags = flags,
        .max_words = RT_MAX_WORDS,
        .words = &q->data,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc >= 0 && !help) rc = run(q, e);
    rt_free(q);
    return rc;
}
