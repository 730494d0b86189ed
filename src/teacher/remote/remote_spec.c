/* remote_spec.c - the name of a teacher at an address. See remote.h. */
#include "teacher/remote/http.h"
#include "teacher/remote/remote.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool rt_remote_is(const char *name)
{
    return strncasecmp(name, "http://", 7) == 0 || strncasecmp(name, "https://", 8) == 0;
}

static int bad(const char *name, const char *option, rt_err *e)
{
    return rt_fail(
        e, RT_USAGE,
        "--teacher %s: '%s' is not an option of a server; there are keep=WHAT, cache=DIR, api=retort or vllm, "
        "requests=N (1 to %d), timeout=SECONDS, wait=SECONDS, token-file=FILE, ca-file=FILE, and of vLLM model=NAME "
        "and tokenizer=MODEL",
        name, option, RT_CLIENT_SLOTS);
}

static bool take_seconds(double *out, const char *value)
{
    char *end;
    *out = strtod(value, &end);
    return end != value && !*end && *out > 0 && *out <= 1e7;
}

static bool take_requests(uint32_t *out, const char *value)
{
    char *end;
    const unsigned long n = strtoul(value, &end, 10);
    *out = (uint32_t)n;
    return *value >= '0' && *value <= '9' && !*end && n >= 1 && n <= RT_CLIENT_SLOTS;
}

static bool take_api(bool *vllm, const char *value)
{
    *vllm = strcmp(value, "vllm") == 0;
    return *vllm || strcmp(value, "retort") == 0;
}

static int take(rt_remote_spec *s, const char *name, const char *option, rt_err *e)
{
    const struct {
        const char *name;
        const char **text;
    } texts[] = { { "keep=", &s->keep },
                  { "cache=", &s->cache },
                  { "token-file=", &s->token_file },
                  { "ca-file=", &s->ca_file },
                  { "model=", &s->model },
                  { "tokenizer=", &s->tokenizer } };
    const char *value = strchr(option, '=') + 1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strncmp(option, texts[i].name, strlen(texts[i].name)) != 0) continue;
        if (!*value || *texts[i].text) return bad(name, option, e);
        *texts[i].text = value;
        return RT_OK;
    }
    const bool good = strncmp(option, "wait=", 5) == 0       ? take_seconds(&s->wait, value)
                      : strncmp(option, "timeout=", 8) == 0  ? take_seconds(&s->timeout, value)
                      : strncmp(option, "requests=", 9) == 0 ? take_requests(&s->requests, value)
                      : strncmp(option, "api=", 4) == 0      ? take_api(&s->vllm, value)
                                                             : false;
    return good ? RT_OK : bad(name, option, e);
}

int rt_remote_spec_parse(rt_remote_spec *out, const char *name, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    char *text = rt_arena_strdup(a, name);
    *out = (rt_remote_spec){ .url = text, .wait = 600, .timeout = 300, .requests = 4 };
    if (!text) return rt_no_memory(e, "a teacher");
    for (char *comma; (comma = strrchr(text, ','));) {
        if (!strchr(comma, '=')) RT_TRY(bad(name, comma + 1, e));
        RT_TRY(take(out, name, comma + 1, e));
        *comma = '\0';
    }
    size_t n = strlen(text);
    while (n && text[n - 1] == '/') text[--n] = 0;
    if (!strstr(text, "://") || strchr(text, '?') || strchr(text, '#') || !strstr(text, "://")[3])
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher %s: the address of a server is http://HOST:PORT", name));
    if (!out->vllm && (out->model || out->tokenizer))
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--teacher %s: model= and tokenizer= are of api=vllm; retort serve says them itself", name));
out:
    return rc;
}
