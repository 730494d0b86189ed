/* cmd_serve.c - `retort serve`: a model over HTTP. */
#include "base/file.h"
#include "cli/cli.h"
#include "serve/serve.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
    rt_serve_opts serve;
    rt_where where;
    const char *token_file;
    bool quiet;
} options;

/* Whoever waits for the line reads it from a pipe. */
static void on_listening(void *ctx, const char *url, const rt_speaker_facts *f)
{
    const options *o = ctx;
    char bytes[32];
    rt_live_end();
    if (!o->quiet) {
        rt_say("device", "%s, %s", f->device, rt_format_bytes(bytes, f->bytes));
        rt_say("slots", "%u at once, each of up to %u tokens", f->slots, f->context);
    }
    rt_say("serving", "%s", url);
    fflush(stdout);
}

static void on_stopping(void *ctx, uint32_t requests)
{
    const options *o = ctx;
    if (!o->quiet)
        rt_put_to(stderr, "stopping  when %u request%s %s ended; Ctrl-C again ends at once\n", requests,
                  requests == 1 ? "" : "s", requests == 1 ? "has" : "have");
}

/* The first line of a file that only its owner should read. */
static int read_token(const char *path, rt_str *token, rt_err *e)
{
    int rc;
    RT_TRY(rt_file_read(path, 4096, token, e));
    if (token->data) token->data[token->len = strcspn(token->data, "\r\n")] = 0;
    if (!token->len) RT_TRY(rt_fail(e, RT_INVALID, "the first line of %s is empty; it must be the token", path));
out:
    return rc;
}

static bool is_loopback(const char *host)
{
    return !host || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static int serve(options *o, const char *spec, rt_err *e)
{
    int rc;
    rt_placed_model m = { 0 };
    rt_str token = { 0 };
    rt_serve_opts *so = &o->serve;
    const rt_watch watch = { rt_live_progress, NULL };
    if (!so->name) so->name = spec;
    so->where = &m.where;
    so->env = &m.env;
    so->watch = &watch;
    so->listening = on_listening;
    so->stop = rt_interrupt_wanted;
    so->stopping = on_stopping;
    so->ctx = o;
    if (o->token_file) RT_TRY(read_token(o->token_file, &token, e));
    so->token = token.data;
    RT_TRY(rt_placed_model_open(&m, spec, &o->where, e));
    if (!is_loopback(so->host) && !so->token)
        rt_put_to(stderr,
                  "warning: anyone who can reach %s can use the model; --token-file makes requests need a token\n",
                  so->host);
    rt_interrupt_catch();
    if (!o->quiet) rt_live_begin(stderr);
    rc = rt_serve(m.file, so, e);
    rt_live_end();
    if (rc == RT_INTERRUPTED) { /* while weights were loaded: nothing was under way */
        *e = (rt_err){ 0 };
        rc = RT_OK;
    }
    RT_TRY(rc);
out:
    rt_str_free(&token);
    rt_model_file_close(m.file);
    return rc;
}

int rt_cmd_serve(int argc, char **argv, rt_err *e)
{
    options o = {
        .serve = { .port = 8080, .top = 20, .max_queue = 256, .max_body = 8 << 20, .timeout = 600, .idle_timeout = 60 }
    };
    bool help;
    rt_words words = { 0 };
    const rt_flag flags[] = {
        { "--port", RT_FLAG_WHOLE, &o.serve.port, "N", "port to listen on; 0: any free one, which is printed (8080)" },
        { "--host", RT_FLAG_TEXT, &o.serve.host, "ADDRESS", "address to listen on (127.0.0.1: only this machine)" },
        { "--name", RT_FLAG_TEXT, &o.serve.name, "NAME",
          "name of the model in requests and replies (default: MODEL as given)" },
        { "--slots", RT_FLAG_COUNT, &o.serve.slots, "N", "answers computed at once (8)" },
        { "--context", RT_FLAG_COUNT, &o.serve.context, "N",
          "maximum tokens of prompt and answer together (the model's own limit, at most 4096)" },
        { "--cache-positions", RT_FLAG_COUNT, &o.serve.positions, "N",
          "size of the KV cache in tokens, for all answers together (slots times context)" },
        { "--top-logprobs", RT_FLAG_WHOLE, &o.serve.top, "N",
          "maximum number of likely ids per token that a request may ask for (20)" },
        { "--max-queue", RT_FLAG_WHOLE, &o.serve.max_queue, "N",
          "answers that may wait for a slot before requests get 429 (256)" },
        { "--max-body", RT_FLAG_BYTES, &o.serve.max_body, "SIZE", "size of a request, above which it gets 413 (8M)" },
        { "--max-uploads", RT_FLAG_BYTES, &o.serve.max_uploads, "SIZE",
          "size of all requests that come in at a time, above which large ones get 429 (8 times --max-body)" },
        { "--timeout", RT_FLAG_REAL, &o.serve.timeout, "S", "maximum seconds for a request; 0: no limit (600)" },
        { "--idle-timeout", RT_FLAG_REAL, &o.serve.idle_timeout, "S", "seconds until an idle connection closes (60)" },
        { "--token-file", RT_FLAG_TEXT, &o.token_file, "FILE",
          "file whose first line is the token that requests need: Authorization: Bearer TOKEN" },
        { "--cors", RT_FLAG_TEXT, &o.serve.cors, "ORIGIN", "web origin whose pages may ask, or '*' (none)" },
        { "--quiet", RT_FLAG_BOOL, &o.quiet, NULL, "print only the address" },
        RT_WHERE_FLAGS(o.where),
        { 0 },
    };
    const rt_flag aliases[] = { { "--served-model-name", RT_FLAG_TEXT, &o.serve.name, "NAME", NULL },
                                { "--alias", RT_FLAG_TEXT, &o.serve.name, "NAME", NULL },
                                { "--max-model-len", RT_FLAG_COUNT, &o.serve.context, "N", NULL },
                                { "--ctx-size", RT_FLAG_COUNT, &o.serve.context, "N", NULL },
                                { "--max-num-seqs", RT_FLAG_COUNT, &o.serve.slots, "N", NULL },
                                { "--parallel", RT_FLAG_COUNT, &o.serve.slots, "N", NULL },
                                { "--max-logprobs", RT_FLAG_WHOLE, &o.serve.top, "N", NULL },
                                { "--api-key-file", RT_FLAG_TEXT, &o.token_file, "FILE", NULL },
                                { "--model", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { "-m", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { 0 } };
    const rt_command c = {
        .name = "serve",
        .usage = "retort serve MODEL [flags]",
        .text = "Serves OpenAI's HTTP API: /v1/completions and /v1/chat/completions, with streaming and exact\n"
                "log-probabilities of prompts (echo, prompt_logprobs), /v1/models, /tokenize, /detokenize,\n"
                "/tokenizer_info, /health, /metrics. Concurrent requests are batched. SIGTERM and Ctrl-C finish the\n"
                "requests under way; a second signal ends at once. docs/serving.md has examples.",
        .example = "retort serve out --port 8080",
        .flags = flags,
        .aliases = aliases,
        .min_words = 1,
        .max_words = 1,
        .words = &words
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    return rc < 0 || help ? rc : serve(&o, words.text[0], e);
}
