/* cmd_chat.c - `retort chat`: a conversation, a line at a time, in a terminal or through a pipe.
 *
 * What a person says and what the model answers are a list of messages, which the model reads from its beginning at
 * every turn. Lines that begin with a slash are commands. Answers go to standard output, all else to standard error. */
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "job/speaker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct options {
    const char *system, *activations;
    rt_where where;
    rt_sampled sampled;
    uint32_t max_new, context;
    bool quiet;
} options;

typedef struct chat {
    const options *o;
    rt_placed_model model;
    rt_speaker *speaker;
    json_t *messages;
    rt_str typed;        /* read and not yet taken */
    bool closed;         /* nothing comes any more */
    bool person, screen; /* standard input, and output, are terminals */
    rt_str answer;       /* of the model, so far */
    rt_end end;          /* of the answer; NONE while it is made */
} chat;

/* ---- what is typed ---- */

static bool take_line(chat *c, rt_str *line)
{
    const char *end = c->typed.len ? memchr(c->typed.data, '\n', c->typed.len) : NULL;
    if (!end && !(c->closed && c->typed.len)) return false;
    const size_t len = end ? (size_t)(end - c->typed.data) : c->typed.len, used = len + (end ? 1 : 0);
    rt_utf8_repair(c->typed.data, len, line);
    if (line->len && line->data[line->len - 1] == '\r') line->data[--line->len] = 0;
    memmove(c->typed.data, c->typed.data + used, c->typed.len - used);
    c->typed.len -= used;
    return true;
}

/* 1: a line; 0: there are no more. RT_INTERRUPTED by Ctrl-C where nobody sits at a terminal. */
static int read_line(chat *c, rt_str *line, rt_err *e)
{
    enum { MOST = 64 << 20 };
    char block[1 << 14];
    line->len = 0;
    if (c->person) fputs("> ", c->screen ? stdout : stderr);
    fflush(stdout);
    while (!take_line(c, line)) {
        if (c->closed) return 0;
        if (rt_interrupt_before_input(0)) {
            rt_interrupt_forget();
            if (!c->person) return rt_fail(e, RT_INTERRUPTED, "interrupted");
            fprintf(stderr, "\n(to end the chat: Ctrl-D or /bye)\n> ");
            continue;
        }
        const ssize_t n = read(0, block, sizeof block);
        if (n < 0 && errno != EINTR) return rt_fail(e, RT_IO, "could not read standard input: %s", strerror(errno));
        c->closed = n == 0;
        if (n > 0) rt_str_append_n(&c->typed, block, (size_t)n);
        if (c->typed.len > MOST) return rt_fail(e, RT_INVALID, "a line on standard input is longer than 64 MiB");
        if (c->typed.failed) return rt_no_memory(e, "a line");
    }
    return line->failed ? rt_no_memory(e, "a line") : 1;
}

/* ---- the conversation ---- */

static int say(chat *c, const char *role, const char *text, size_t len, rt_err *e)
{
    if (json_array_append_new(c->messages, json_pack("{s:s, s:s%}", "role", role, "content", text, len)) == 0)
        return RT_OK;
    return rt_no_memory(e, "a conversation");
}

static bool has_system(const chat *c)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    return role && strcmp(role, "system") == 0;
}

static void unsay(chat *c) { json_array_remove(c->messages, json_array_size(c->messages) - 1); }

static int set_system(chat *c, const char *text, size_t len, rt_err *e)
{
    rt_str safe = { 0 };
    rt_utf8_repair(text, len, &safe);
    json_t *m = json_pack("{s:s, s:s%}", "role", "system", "content", safe.data ? safe.data : "", safe.len);
    bool failed = safe.failed;
    failed |= has_system(c) ? json_array_set_new(c->messages, 0, m) : json_array_insert_new(c->messages, 0, m);
    rt_str_free(&safe);
    return failed ? rt_no_memory(e, "a conversation") : RT_OK;
}

static void on_answer(void *ctx, const rt_answer_event *a)
{
    chat *c = ctx;
    rt_str safe = { 0 };
    rt_str_append_n(&c->answer, a->text, a->len);
    if (c->screen)
        rt_visible_append(&safe, a->text, a->len, false);
    else
        rt_str_append_n(&safe, a->text, a->len);
    if (safe.len) fwrite(safe.data, 1, safe.len, stdout);
    fflush(stdout);
    rt_str_free(&safe);
    c->end = a->end;
}

static void explain_end(const chat *c)
{
    const rt_speaker_facts f = rt_speaker_facts_of(c->speaker);
    if (c->o->quiet || c->end == RT_END_STOP) return;
    if (c->end == RT_END_CANCELLED)
        rt_put_to(stderr, "(stopped)\n");
    else
        rt_put_to(stderr, "(cut off: --max-new is %u, the context %u)\n", c->o->max_new, f.context);
}

/* The model's turn; Ctrl-C ends it. What does not fit into the context is taken back. */
static int answer(chat *c, rt_err *e)
{
    int rc;
    rt_tok_ids ids = { 0 };
    rt_answer *a = NULL;
    const rt_speaker_chat now = { .messages = c->messages,
                                  .now = c->model.env.now,
                                  .utc_offset = c->model.env.utc_offset };
    c->answer.len = 0;
    c->end = RT_END_NONE;
    RT_TRY(rt_speaker_converse(c->speaker, &now, &ids, e));
    const rt_answer_opts o = { .prompt = ids.ids,
                               .count = ids.count,
                               .max_new = c->o->max_new,
                               .sampling = rt_sampling_of(&c->o->sampled),
                               .fn = on_answer,
                               .ctx = c };
    RT_TRY(rt_speaker_begin(c->speaker, &o, &a, e));
    while (c->end == RT_END_NONE) {
        RT_TRY(rt_speaker_step(c->speaker, e));
        if (c->end == RT_END_NONE && rt_interrupt_wanted(NULL)) rt_speaker_cancel(c->speaker, a);
    }
    rt_interrupt_forget();
    if (c->end == RT_END_NONFINITE) RT_TRY(rt_fail(e, RT_NONFINITE, "a logit is not finite; the model is damaged"));
    if (c->answer.failed) RT_TRY(rt_no_memory(e, "an answer"));
    printf("\n");
    fflush(stdout);
    explain_end(c);
    RT_TRY(say(c, "assistant", c->answer.data ? c->answer.data : "", c->answer.len, e));
out:
    rt_free(ids.ids);
    if (rc != RT_INVALID) return rc;
    unsay(c);
    rt_put_to(stderr, "%s; /reset begins a new conversation\n", e->text);
    *e = (rt_err){ 0 };
    return RT_OK;
}

/* ---- commands ---- */

static const char commands[] = "/reset         clear the conversation, keep the system message\n"
                               "/system TEXT   set the system message; without TEXT, print it\n"
                               "/save FILE     write the conversation as a line of training data\n"
                               "/help, /bye    show this list; end the chat\n"
                               "A line that ends with \\ continues on the next; // begins a message with a slash.\n";

static int save(const chat *c, const char *path, rt_err *e)
{
    json_t *j = json_pack("{s:O}", "messages", c->messages);
    char *text = rt_json_dump(j, JSON_COMPACT);
    rt_str line = { 0 };
    rt_err why = { 0 };
    int rc = text ? RT_OK : rt_no_memory(e, "a conversation");
    if (text) rt_str_printf(&line, "%s\n", text);
    if (text && line.failed) rc = rt_no_memory(e, "a conversation");
    if (rc >= 0 && rt_path_exists(path))
        rt_put_to(stderr, "%s already exists; give another name\n", path);
    else if (rc >= 0 &&
             (rt_job_output_outside_runs(path, &why) < 0 || rt_file_write_new(path, line.data, line.len, &why) < 0))
        rt_put_to(stderr, "%s\n", why.text);
    else if (rc >= 0 && !c->o->quiet)
        rt_put_to(stderr, "%zu messages written to %s\n", json_array_size(c->messages), path);
    rt_str_free(&line);
    rt_free(text);
    json_decref(j);
    return rc;
}

static int show_or_set_system(chat *c, const char *text, rt_err *e)
{
    const json_t *is = json_object_get(json_array_get(c->messages, 0), "content");
    if (*text) return set_system(c, text, strlen(text), e);
    rt_put_to(stderr, "%s\n", has_system(c) ? json_string_value(is) : "(no system message)");
    return RT_OK;
}

/* 1: the end. line begins with a slash. */
static int command(chat *c, const char *line, rt_err *e)
{
    const size_t len = strcspn(line, " \t");
    const char *rest = line + len + strspn(line + len, " \t");
#define IS(word) (len == sizeof word - 1 && memcmp(line, word, len) == 0)
    if (IS("/bye") || IS("/exit") || IS("/quit")) return 1;
    if (IS("/system")) return show_or_set_system(c, rest, e);
    if (IS("/reset"))
        while (json_array_size(c->messages) > has_system(c)) unsay(c);
    else if (IS("/save") && *rest)
        return save(c, rest, e);
    else if (IS("/help"))
        rt_put_to(stderr, "%s", commands);
    else
        rt_put_to(stderr, IS("/save") ? "/save needs a file name\n" : "%.*s is not a command; /help lists them\n",
                  (int)(len < 60 ? len : 60), line);
#undef IS
    return RT_OK;
}

/* ---- all of it ---- */

static int converse(chat *c, rt_err *e)
{
    int rc;
    rt_str line = { 0 }, message = { 0 };
    while ((rc = read_line(c, &line, e)) > 0) {
        const bool more = line.len && line.data[line.len - 1] == '\\';
        if (!message.len && line.len && line.data[0] == '/' && line.data[1] != '/') {
            if ((rc = command(c, line.data, e)) != RT_OK) break;
            continue;
        }
        const size_t slash = !message.len && line.len > 1 && line.data[0] == '/';
        if (line.len) rt_str_append_n(&message, line.data + slash, line.len - slash - more);
        if (more) rt_str_append(&message, "\n");
        if (more || !message.len) continue;
        if (message.failed) RT_TRY(rt_no_memory(e, "a message"));
        RT_TRY(say(c, "user", message.data, message.len, e));
        RT_TRY(answer(c, e));
        message.len = 0;
    }
    if (rc == 0 && c->person) fprintf(stderr, "\n");
out:
    rt_str_free(&line);
    rt_str_free(&message);
    return rc < 0 ? rc : RT_OK;
}

/* A model that cannot be talked to is refused before its weights are read. */
static int check_template(chat *c, const char *spec, rt_err *e)
{
    rt_tok_ids ids = { 0 };
    const rt_speaker_chat now = { .messages = c->messages,
                                  .now = c->model.env.now,
                                  .utc_offset = c->model.env.utc_offset };
    int rc = say(c, "user", "hello", 5, e);
    if (rc >= 0) rc = rt_speaker_converse(c->speaker, &now, &ids, e);
    if (rc < 0) rt_err_context(e, "%s", spec);
    unsay(c);
    rt_free(ids.ids);
    return rc;
}

static int run(const options *o, const char *spec, rt_err *e)
{
    int rc;
    chat c = { .o = o, .person = isatty(0), .screen = isatty(1) };
    const rt_sampling sampling = rt_sampling_of(&o->sampled);
    const rt_watch watch = { rt_live_progress, NULL };
    rt_engine_opts eo = { .slots = 1, .context = o->context, .watch = &watch };
    if (!(c.messages = json_array())) RT_TRY(rt_no_memory(e, "a conversation"));
    RT_TRY(rt_speaker_check_sampling(&sampling, e));
    RT_TRY(rt_take_activations(o->activations, &eo.int8, e));
    RT_TRY(rt_placed_model_open(&c.model, spec, &o->where, e));
    RT_TRY(rt_speaker_new(&c.speaker, c.model.file, e));
    if (o->system) RT_TRY(set_system(&c, o->system, strlen(o->system), e));
    RT_TRY(check_template(&c, spec, e));
    if (!o->quiet) rt_live_begin(stderr);
    rc = rt_speaker_seal(c.speaker, &eo, &c.model.where, c.model.env.environment, e);
    rt_live_end();
    RT_TRY(rc);
    rt_interrupt_catch_each();
    const rt_engine_stats stats = rt_speaker_stats(c.speaker);
    if (!o->quiet) rt_put_int8(stats.int8, stats.gemms);
    if (c.person && !o->quiet) {
        const rt_speaker_facts f = rt_speaker_facts_of(c.speaker);
        rt_put_to(
            stderr,
            "%s on %s, context of %u tokens. Ctrl-C stops an answer, Ctrl-D ends the chat; /help lists commands.\n",
            spec, f.device, f.context);
    }
    RT_TRY(converse(&c, e));
out:
    json_decref(c.messages);
    rt_str_free(&c.typed);
    rt_str_free(&c.answer);
    rt_speaker_free(c.speaker);
    rt_model_file_close(c.model.file);
    return rc;
}

int rt_cmd_chat(int argc, char **argv, rt_err *e)
{
    options o = { .sampled = RT_SAMPLED_DEFAULT, .max_new = 1024 };
    bool help;
    rt_words words = { 0 };
    const rt_flag flags[] = {
        { "--system", RT_FLAG_TEXT, &o.system, "TEXT", "system message" },
        { "--max-new", RT_FLAG_COUNT, &o.max_new, "N", "maximum tokens of an answer (1024)" },
        RT_SAMPLED_FLAGS(o.sampled),
        { "--context", RT_FLAG_COUNT, &o.context, "N",
          "maximum tokens of the whole conversation (the model's own limit, at most 4096)" },
        { "--quiet", RT_FLAG_BOOL, &o.quiet, NULL, "print only answers and errors" },
        RT_WHERE_FLAGS(o.where),
        RT_ACTIVATIONS_FLAG(o.activations),
        { 0 },
    };
    const rt_flag aliases[] = { { "--max-new-tokens", RT_FLAG_COUNT, &o.max_new, "N", NULL },
                                { "--temp", RT_FLAG_REAL, &o.sampled.temperature, "T", NULL },
                                { "--ctx-size", RT_FLAG_COUNT, &o.context, "N", NULL },
                                { "--model", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { "-m", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { 0 } };
    const rt_command c = {
        .name = "chat",
        .usage = "retort chat MODEL [flags]",
        .text =
            "Chats with a model that has a chat template. Each line is a message, from a terminal or a pipe, and the\n"
            "answer is streamed. Ctrl-C stops the answer, not the program. /reset clears the conversation,\n"
            "/system TEXT sets the system message, /save FILE writes the conversation as training data.",
        .example = "retort chat out --system 'Answer in one sentence.' --temperature 0.7",
        .flags = flags,
        .aliases = aliases,
        .min_words = 1,
        .max_words = 1,
        .words = &words
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    return rc < 0 || help ? rc : run(&o, words.text[0], e);
}
