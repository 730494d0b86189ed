/* cmd_serve.c - `retort serve`: a model behind HTTP. */
#include "base/file.h"
#include "cli/cli.h"
#include "serve/serve.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
    const char *host, *name, *token_file, *device, *base;
    uint64_t port, max_queue, max_body, top;
    uint32_t slots, context, positions, threads;
    double timeout, idle;
    bool quiet;
} options;

/* Whoever waits for the line reads it from a pipe. */
static void on_listening(void *ctx, const char *url, const rt_speaker_facts *f)
{
    const options *o = ctx;
    char bytes[32];
    if (!o->quiet) {
        rt_say("device", "%s, %s", f->device, rt_format_bytes(bytes, f->bytes));
        rt_say("slots", "%u at once, each of up to %u tokens", f->slots, f->context);
    }
    rt_say("serving", "%s", url);
    fflush(stdout);
}

/* The first line of a file that only its owner should read. */
static int read_token(const char *path, rt_str *token, rt_err *e)
{
    int rc;
    RT_TRY(rt_file_read(path, 4096, token, e));
    if (token->data) token->data[token->len = strcspn(token->data, "\r\n")] = 0;
    if (!token->len) RT_TRY(rt_fail(e, RT_INVALID, "%s holds no token in its first line", path));
out:
    return rc;
}

static bool is_loopback(const char *host)
{
    return !host || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static int check(const options *o, rt_err *e)
{
    if (o->port > 65535)
        return rt_fail(e, RT_USAGE, "--port %llu is out of range (0 to 65535)", (unsigned long long)o->port);
    if (o->top > 1000)
        return rt_fail(e, RT_USAGE, "--top-logprobs %llu is out of range (0 to 1000)", (unsigned long long)o->top);
    if (o->max_queue > 1000000)
        return rt_fail(e, RT_USAGE, "--max-queue %llu is out of range (0 to 1000000)",
                       (unsigned long long)o->max_queue);
    if (o->max_body < 1024 || o->max_body > 1u << 30)
        return rt_fail(e, RT_USAGE, "--max-body %llu is out of range (1K to 1G)", (unsigned long long)o->max_body);
    if (o->timeout < 0 || o->timeout > 1e9) return rt_fail(e, RT_USAGE, "--timeout %g is out of range", o->timeout);
    if (o->idle < 0.1 || o->idle > 1e6)
        return rt_fail(e, RT_USAGE, "--idle-timeout %g is out of range (0.1 to 1000000)", o->idle);
    return RT_OK;
}

static int serve(const options *o, const char *spec, rt_err *e)
{
    int rc;
    rt_settings where = { .threads = o->threads };
    rt_job_env env = rt_cli_env(0);
    rt_model_file *model = NULL;
    rt_str token = { 0 };
    rt_serve_opts so = { .host = o->host,
                         .port = (uint32_t)o->port,
                         .name = o->name ? o->name : spec,
                         .max_queue = (uint32_t)o->max_queue,
                         .max_body = o->max_body,
                         .timeout = o->timeout,
                         .idle_timeout = o->idle,
                         .where = &where,
                         .env = &env,
                         .listening = on_listening,
                         .stop = rt_interrupt_wanted,
                         .ctx = (void *)(uintptr_t)o };
    so.engine = (rt_engine_opts){
        .slots = o->slots, .context = o->context, .positions = o->positions, .top = (uint32_t)o->top, .echo = true
    };
    env.hub.base = o->base;
    RT_TRY(check(o, e));
    if (o->device) RT_TRY(rt_settings_set(&where, RT_SETTING_ID_device, o->device, e));
    if (o->token_file) RT_TRY(read_token(o->token_file, &token, e));
    so.token = token.data;
    RT_TRY(rt_model_file_open(&model, spec, &env.hub, e));
    if (!is_loopback(o->host) && !so.token)
        rt_put_to(stderr, "warning: whoever can reach %s can use the model; --token-file asks for a token\n", o->host);
    rt_interrupt_catch();
    RT_TRY(rt_serve(model, &so, e));
out:
    rt_str_free(&token);
    rt_model_file_close(model);
    return rc;
}

int rt_cmd_serve(int argc, char **argv, rt_err *e)
{
    options o = {
        .port = 8080, .max_queue = 256, .max_body = 8 << 20, .top = 20, .slots = 8, .timeout = 600, .idle = 60
    };
    bool help;
    rt_words words = { 0 };
    const rt_flag flags[] = {
        { "--port", RT_FLAG_WHOLE, &o.port, "N", "port to listen on (8080); 0: one that is free, which is printed" },
        { "--host", RT_FLAG_TEXT, &o.host, "ADDRESS", "address to listen on (127.0.0.1: this machine alone)" },
        { "--name", RT_FLAG_TEXT, &o.name, "NAME",
          "name of the model in requests and replies (default: MODEL as given)" },
        { "--base", RT_FLAG_TEXT, &o.base, "MODEL", "base model of an adapter (default: the one that it names)" },
        { "--slots", RT_FLAG_COUNT, &o.slots, "N", "answers that are computed at once (8)" },
        { "--context", RT_FLAG_COUNT, &o.context, "N",
          "longest prompt and answer together (the model's own limit, at most 4096)" },
        { "--cache-positions", RT_FLAG_COUNT, &o.positions, "N",
          "tokens in the cache, of all answers together (slots times context)" },
        { "--top-logprobs", RT_FLAG_WHOLE, &o.top, "N", "likely ids that a request may ask for with each token (20)" },
        { "--max-queue", RT_FLAG_WHOLE, &o.max_queue, "N",
          "answers that may wait for a slot, before requests get 429 (256)" },
        { "--max-body", RT_FLAG_BYTES, &o.max_body, "SIZE", "largest request, before it gets 413 (8M)" },
        { "--timeout", RT_FLAG_REAL, &o.timeout, "S", "seconds that a request may take in all (600); 0: any" },
        { "--idle-timeout", RT_FLAG_REAL, &o.idle, "S",
          "seconds that a client may neither send nor take anything (60)" },
        { "--token-file", RT_FLAG_TEXT, &o.token_file, "FILE",
          "file whose first line requests must bear: Authorization: Bearer TOKEN" },
        { "--quiet", RT_FLAG_BOOL, &o.quiet, NULL, "no line but the address" },
        { "--device", RT_FLAG_TEXT, &o.device, "D", "where to run (auto)" },
        { "--threads", RT_FLAG_COUNT, &o.threads, "N", "CPU threads (default: cores this process may use)" },
        { 0 },
    };
    const rt_flag aliases[] = { { "--served-model-name", RT_FLAG_TEXT, &o.name, "NAME", NULL },
                                { "--alias", RT_FLAG_TEXT, &o.name, "NAME", NULL },
                                { "--max-model-len", RT_FLAG_COUNT, &o.context, "N", NULL },
                                { "--ctx-size", RT_FLAG_COUNT, &o.context, "N", NULL },
                                { "--max-num-seqs", RT_FLAG_COUNT, &o.slots, "N", NULL },
                                { "--parallel", RT_FLAG_COUNT, &o.slots, "N", NULL },
                                { "--max-logprobs", RT_FLAG_WHOLE, &o.top, "N", NULL },
                                { "--api-key-file", RT_FLAG_TEXT, &o.token_file, "FILE", NULL },
                                { "--model", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { "-m", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { 0 } };
    const rt_command c = {
        .name = "serve",
        .usage = "retort serve MODEL [flags]",
        .text =
            "Answers HTTP as OpenAI's API does: /v1/completions and /v1/chat/completions, streamed where asked, with\n"
            "exact log-probabilities of prompts (echo, prompt_logprobs), /v1/models, /tokenize, /detokenize,\n"
            "/tokenizer_info, /health, /metrics. Requests that come together are computed together. SIGTERM and\n"
            "Ctrl-C finish what is under way; a second one ends at once. docs/serving.md has examples.",
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
