/* cmd_tokenize.c - `retort tokenize`: text as token shards, samples with what is trained, and one text from standard
 * input to ids and back. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct request {
    rt_job_tokenize_opts o;
    rt_words data, vars;
    uint64_t now;
    bool json, ids, decode, no_special;
    json_t *samples; /* with --json */
} request;

/* ---- one text ---- */

static int print_ids(const request *q, const rt_str *text, rt_err *e)
{
    rt_tok_ids ids = { 0 };
    int rc = rt_job_encode(&q->o.text, text->data ? text->data : "", text->len, !q->no_special, &ids, e);
    for (uint32_t i = 0; rc >= 0 && i < ids.count; i++) printf(i ? " %u" : "%u", ids.ids[i]);
    if (rc >= 0) putchar('\n');
    rt_free(ids.ids);
    return rc;
}

static int print_decoded(const request *q, const rt_str *numbers, rt_err *e)
{
    rt_str out = { 0 };
    int rc = rt_job_decode(&q->o.text, numbers->data ? numbers->data : "", numbers->len, !q->no_special, &out, e);
    if (rc < 0) rt_err_context(e, "standard input");
    if (rc >= 0 && out.len && fwrite(out.data, 1, out.len, stdout) != out.len)
        rc = rt_fail(e, RT_IO, "could not write to standard output: %s", strerror(errno));
    rt_str_free(&out);
    return rc;
}

static int one_text(const request *q, rt_err *e)
{
    rt_str text = { 0 };
    int rc;
    if (q->data.count)
        return rt_fail(e, RT_USAGE, "retort tokenize: --ids and --decode read standard input, not files");
    if (q->ids && q->decode) return rt_fail(e, RT_USAGE, "retort tokenize: --ids and --decode are two ways; take one");
    if (!q->o.text.model) return rt_fail(e, RT_USAGE, "retort tokenize: --model is missing");
    RT_TRY(rt_read_input(&text, e));
    RT_TRY(q->ids ? print_ids(q, &text, e) : print_decoded(q, &text, e));
out:
    rt_str_free(&text);
    return rc;
}

/* ---- samples ---- */

/* Nothing in it that a terminal would act on: the text comes from a stranger. */
static void show_pieces(rt_str *out, const rt_job_sample *s, bool colour)
{
    size_t at = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        bool trained = i % 2 == 1;
        if (i > 0) rt_str_append(out, trained ? colour ? "\x1b[1;32m" : "⟦" : colour ? "\x1b[0m" : "⟧");
        rt_visible_append(out, s->text + at, s->ends[i] - at, false);
        at = s->ends[i];
    }
    if (s->count % 2 == 0) rt_str_append(out, colour ? "\x1b[0m" : "⟧");
    if (s->left) rt_str_printf(out, "\n... and %u more tokens", s->left);
}

static void on_sample(void *ctx, const rt_job_sample *s)
{
    request *q = ctx;
    rt_str text = { 0 };
    show_pieces(&text, s, !q->json && rt_live_colour(stdout));
    if (q->json)
        json_array_append_new(q->samples, json_pack("{s:s, s:s, s:I, s:I, s:s%}", "place", s->place, "kind", s->kind,
                                                    "tokens", (json_int_t)s->tokens, "trained", (json_int_t)s->trained,
                                                    "text", text.data ? text.data : "", text.len));
    rt_live_hold();
    if (!q->json) {
        rt_put("--- %s: %s, %u tokens, %u trained", s->place, s->kind, s->tokens, s->trained);
        if (s->dropped)
            rt_put("; dropped: %s\n", s->dropped);
        else if (s->cut)
            rt_put("; shortened to %llu tokens, %llu trained\n", (unsigned long long)s->kept,
                   (unsigned long long)s->kept_trained);
        else
            rt_put("\n");
        printf("%s\n", text.data ? text.data : "");
    }
    rt_live_release();
    rt_str_free(&text);
}

static void on_note(void *ctx, const char *text)
{
    (void)ctx;
    rt_live_hold();
    rt_put_to(stderr, "note: %s\n", text);
    rt_live_release();
}

/* ---- the report ---- */

static char *million(char *buf, size_t size, double x)
{
    snprintf(buf, size, x >= 1e6 ? "%.1f M" : "%.0f", x >= 1e6 ? x / 1e6 : x);
    return buf;
}

static void print_fit(const request *q, const rt_rows_count *f)
{
    if (q->o.seq_len) {
        rt_put("rows of %u: %llu texts in pieces, %llu conversations cut after a turn; dropped: %llu too long, %llu "
               "without a target\n",
               q->o.seq_len, (unsigned long long)f->split, (unsigned long long)f->cut, (unsigned long long)f->too_long,
               (unsigned long long)f->no_target);
        rt_put("targets     %llu left, %llu lost (%.1f %%)\n", (unsigned long long)(f->targets - f->lost),
               (unsigned long long)f->lost, f->targets ? 100.0 * (double)f->lost / (double)f->targets : 0.0);
    } else if (f->no_target) {
        rt_put("without     a target: %llu records\n", (unsigned long long)f->no_target);
    }
}

static void print_report(const request *q, const rt_job_tokenized *d)
{
    const rt_tokenize_stats *st = &d->stats;
    char rate[32];
    double share = st->tokens ? 100.0 * (double)st->trained / (double)st->tokens : 0;
    rt_put("records     %llu (%llu text, %llu completion, %llu chat)\n", (unsigned long long)st->records,
           (unsigned long long)st->kinds[0], (unsigned long long)st->kinds[1], (unsigned long long)st->kinds[2]);
    rt_put("tokens      %llu, of which %llu trained (%.1f %%)\n", (unsigned long long)st->tokens,
           (unsigned long long)st->trained, share);
    print_fit(q, &d->rows);
    if (st->bad)
        rt_put("skipped     %llu bad record%s; the first: %s\n", (unsigned long long)st->bad, st->bad == 1 ? "" : "s",
               st->first_bad);
    rt_put("speed       %.1f MB/s, %s tokens/s, %.2f s, %u threads\n", (double)st->bytes / 1e6 / d->seconds,
           million(rate, sizeof rate, (double)st->tokens / d->seconds), d->seconds, d->threads);
    if (q->o.out) rt_put("written     %s (%u shard%s)\n", q->o.out, d->shards, d->shards == 1 ? "" : "s");
}

static void print_shards(const request *q, const rt_job_tokenized *d)
{
    rt_put("%u shard%s%s: %llu records, %llu tokens, %llu trained\n", d->shards, d->shards == 1 ? "" : "s",
           q->o.verify ? ", verified" : "", (unsigned long long)d->stats.records, (unsigned long long)d->stats.tokens,
           (unsigned long long)d->stats.trained);
    print_fit(q, &d->rows);
}

static json_t *shards_json(const request *q, const rt_job_tokenized *d)
{
    return json_pack("{s:I, s:I, s:I, s:i, s:b, s:O}", "records", (json_int_t)d->stats.records, "tokens",
                     (json_int_t)d->stats.tokens, "trained", (json_int_t)d->stats.trained, "shards", (int)d->shards,
                     "verified", q->o.verify, "samples", q->samples);
}

static json_t *report_json(const request *q, const rt_job_tokenized *d)
{
    const rt_tokenize_stats *st = &d->stats;
    const rt_rows_count *f = &d->rows;
    json_t *j = json_pack(
        "{s:I, s:{s:I, s:I, s:I}, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:i, s:s, s:s?, s:i}", "records",
        (json_int_t)st->records, "kinds", "text", (json_int_t)st->kinds[0], "completion", (json_int_t)st->kinds[1],
        "chat", (json_int_t)st->kinds[2], "bad", (json_int_t)st->bad, "tokens", (json_int_t)st->tokens, "trained",
        (json_int_t)st->trained, "bytes", (json_int_t)st->bytes, "seconds", d->seconds, "tokens_per_second",
        (double)st->tokens / d->seconds, "bytes_per_second", (double)st->bytes / d->seconds, "threads", (int)d->threads,
        "tokenizer", d->tokenizer, "out", q->o.out, "shards", (int)d->shards);
    json_t *rows =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "seq_len", (json_int_t)q->o.seq_len, "split",
                  (json_int_t)f->split, "cut", (json_int_t)f->cut, "too_long", (json_int_t)f->too_long, "no_target",
                  (json_int_t)f->no_target, "targets", (json_int_t)f->targets, "targets_lost", (json_int_t)f->lost);
    if (j && st->bad) json_object_set_new(j, "first_bad", json_string(st->first_bad));
    if (j) json_object_set_new(j, "rows", rows);
    if (j && q->o.show) json_object_set(j, "samples", q->samples);
    return j;
}

/* ---- the command ---- */

static int tokenize(request *q, rt_err *e)
{
    rt_job_tokenized done;
    q->o.data = q->data.text;
    q->o.data_count = q->data.count;
    q->o.note = on_note;
    q->o.sample = on_sample;
    q->o.progress = rt_live_progress;
    q->o.ctx = q;
    if (!(q->samples = json_array())) return rt_no_memory(e, "samples");
    rt_interrupt_catch();
    rt_live_begin(stderr);
    int rc = rt_job_tokenize(&done, &q->o, e);
    rt_live_end();
    if (rc >= 0 && q->json)
        rc = rt_print_json(done.read ? shards_json(q, &done) : report_json(q, &done), e);
    else if (rc >= 0 && done.read)
        print_shards(q, &done);
    else if (rc >= 0)
        print_report(q, &done);
    json_decref(q->samples);
    return rc;
}

static int run(request *q, rt_err *e)
{
    const rt_job_env env = rt_cli_env(q->now);
    q->o.text.env = &env;
    q->o.text.vars = q->vars.text;
    q->o.text.var_count = q->vars.count;
    if (q->ids || q->decode) return one_text(q, e);
    if (q->no_special) return rt_fail(e, RT_USAGE, "retort tokenize: --no-special goes with --ids and --decode");
    if (q->data.count == 0) return rt_fail(e, RT_USAGE, "retort tokenize: no data were named; see --help");
    return tokenize(q, e);
}

int rt_cmd_tokenize(int argc, char **argv, rt_err *e)
{
    request *q = rt_alloc_zero(sizeof *q, 16);
    bool help;
    if (!q) return rt_no_memory(e, "the arguments");
    const rt_flag flags[] = {
        { "--model", RT_FLAG_TEXT, &q->o.text.model, "M", "a model, a tokenizer.json, or a GGUF with a vocabulary" },
        { "--out", RT_FLAG_TEXT, &q->o.out, "OUT", "write token shards: a directory, or one file OUT.rtok" },
        { "--show", RT_FLAG_WHOLE, &q->o.show, "N",
          "print N records of each source, what is trained in colour or ⟦brackets⟧" },
        { "--seq-len", RT_FLAG_COUNT, &q->o.seq_len, "T", "say what rows of T tokens would cut and drop" },
        { "--loss-on", RT_FLAG_TEXT, &q->o.loss, "turns|all",
          "completions and assistant turns (default), or everything" },
        { "--columns", RT_FLAG_TEXT, &q->o.columns, "K=C,...",
          "columns of other names: prompt=question,completion=answer" },
        { "--chat-template", RT_FLAG_TEXT, &q->o.text.template_file, "FILE",
          "a template to use instead of the model's" },
        { "--template-var", RT_FLAG_LIST, &q->vars, "K=V", "a variable for it, such as enable_thinking=false" },
        { "--now", RT_FLAG_WHOLE, &q->now, "SECONDS", "the date for templates that print one (default: the clock)" },
        { "--eos", RT_FLAG_TEXT, &q->o.text.eos, "TOKEN", "the token that ends a text, where the model does not say" },
        { "--skip-bad", RT_FLAG_WHOLE, &q->o.skip_bad, "N",
          "skip up to N broken records (default: 0, stop at the first)" },
        { "--allow-drop", RT_FLAG_BOOL, &q->o.allow_drop, NULL, "allow more than 5 % of the records to be dropped" },
        { "--shard-tokens", RT_FLAG_WHOLE, &q->o.shard_tokens, "N", "tokens in a shard (default: 268435456)" },
        { "--vocab", RT_FLAG_COUNT, &q->o.vocab, "N", "vocabulary of shards that do not say theirs" },
        { "--verify", RT_FLAG_BOOL, &q->o.verify, NULL, "of shards: check every id and the hash" },
        { "--force", RT_FLAG_BOOL, &q->o.replace, NULL, "replace OUT.rtok when it is there" },
        { "--threads", RT_FLAG_COUNT, &q->o.threads, "N", "threads (default: cores this process may use)" },
        { "--ids", RT_FLAG_BOOL, &q->ids, NULL, "one text from standard input, its ids on standard output" },
        { "--decode", RT_FLAG_BOOL, &q->decode, NULL, "ids from standard input, their text on standard output" },
        { "--no-special", RT_FLAG_BOOL, &q->no_special, NULL,
          "--ids: add no BOS or EOS; --decode: leave special ids out" },
        { "--json", RT_FLAG_BOOL, &q->json, NULL, "the report as JSON" },
        { 0 },
    };
    const rt_flag aliases[] = { { "-o", RT_FLAG_TEXT, &q->o.out, "OUT", NULL }, { 0 } };
    const rt_command c = {
        .name = "tokenize",
        .usage = "retort tokenize DATA... --model M [--out OUT] [flags]",
        .text = "Turns text into token shards with a mask of what is trained. DATA is JSONL, JSON, CSV, text\n"
                "(.gz or .zst too), Parquet, a directory or org/name in the Hugging Face cache (NAME:SPLIT is a\n"
                "split of it), a pattern, or token shards to look at.\n"
                "Records are `text`, `prompt` and `completion`, `messages`, `conversations`, `instruction`,\n"
                "`input` and `output`, or `question` and `answer`; --columns names others.",
        .example = "retort tokenize chats.jsonl --model Qwen/Qwen2.5-0.5B-Instruct --show 2",
        .flags = flags,
        .aliases = aliases,
        .max_words = RT_MAX_WORDS,
        .words = &q->data,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc >= 0 && !help) rc = run(q, e);
    rt_free(q);
    return rc;
}
