/* cmd_cache.c - `retort cache`: a teacher's probabilities for a text, computed once and stored; caches joined;
 * a cache inspected. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FLAGS = 40 };

typedef struct cache_flags {
    rt_words words[RT_SETTING_COUNT_ALL], join, from, looked;
    bool on[RT_SETTING_COUNT_ALL], fill, json, quiet;
    const char *keep, *part, *format, *tokens, *to;
    uint32_t window;
    rt_flag flags[MOST_FLAGS];
    char help[RT_SETTING_COUNT_ALL][200];
} cache_flags;

/* What a setting means here, where that is less than, or not, what it means to a run. */
static const char *help_of(rt_setting_id id)
{
    switch (id) {
    case RT_SETTING_ID_teacher: return "Teacher model, or a server's http://HOST:PORT, run over the data";
    case RT_SETTING_ID_student: return "Student model, if it shares only some of the teacher's ids";
    case RT_SETTING_ID_out: return "Output directory for the cache; a new or an empty one";
    case RT_SETTING_ID_temperature: return "Temperature of the stored probabilities; not used for hidden states";
    case RT_SETTING_ID_teacher_batch: return "Teacher batch rows; changes memory, not what is stored";
    case RT_SETTING_ID_seed: return "Seed of draws, and of what is held out";
    case RT_SETTING_ID_held_seed: return "Seed of the choice of held-out records (--seed)";
    default: return rt_setting_table[id].help;
    }
}

static void make_flags(cache_flags *v)
{
    uint32_t n = 0;
    for (const rt_setting_id *id = rt_job_cache_settings; *id != RT_SETTING_COUNT_ALL; id++) {
        const rt_setting_info *f = &rt_setting_table[*id];
        bool show = *f->def && strcmp(f->def, "auto") != 0, onoff = f->kind == RT_SETTING_SWITCH;
        snprintf(v->help[*id], sizeof v->help[*id], "%s%s%s%s", help_of(*id), show ? " (" : "", show ? f->def : "",
                 show ? ")" : "");
        v->flags[n++] = (rt_flag){ f->flag, onoff ? RT_FLAG_BOOL : RT_FLAG_LIST,
                                   onoff ? (void *)&v->on[*id] : (void *)&v->words[*id], f->metavar, v->help[*id] };
    }
    const rt_flag own[] = {
        { "--keep", RT_FLAG_TEXT, &v->keep, "WHAT",
          "Form of what is stored: topk:K with the mass of the rest; draws:N, for forward KL only; or hidden, "
          "exact and large (topk:64)" },
        { "--fill", RT_FLAG_BOOL, &v->fill, NULL,
          "Fill an existing cache: adds the positions of this data that --out lacks" },
        { "--part", RT_FLAG_TEXT, &v->part, "I/N", "Part of the work, for N processes that fill one cache together" },
        { "--join", RT_FLAG_LIST, &v->join, "CACHE",
          "Cache to join into --out, instead of running a teacher; to be repeated" },
        { "--from", RT_FLAG_LIST, &v->from, "FILE",
          "File of another tool to make the cache of, instead of running a teacher; --teacher lends its tokenizer; may "
          "be repeated" },
        { "--to", RT_FLAG_TEXT, &v->to, "FILE",
          "File for another tool, written of what the cache C has of --data: retort cache C --data D --to FILE" },
        { "--format", RT_FLAG_TEXT, &v->format, "axolotl|vllm|surogate", "Format of --from and --to" },
        { "--tokens", RT_FLAG_TEXT, &v->tokens, "FILE", "Token shard beside a .kd file of surogate" },
        { "--window", RT_FLAG_COUNT, &v->window, "N",
          "Sequence length of surogate's capture, at whose multiples its teacher began anew" },
        { "--json", RT_FLAG_BOOL, &v->json, NULL, "JSON instead of text" },
        { "--quiet", RT_FLAG_BOOL, &v->quiet, NULL, "Quiet: errors alone are printed, and --json" },
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) v->flags[n++] = own[i];
}

static int take_settings(rt_settings *s, const cache_flags *v, rt_err *e)
{
    int rc = RT_OK;
    for (const rt_setting_id *id = rt_job_cache_settings; *id != RT_SETTING_COUNT_ALL; id++) {
        const rt_words *w = &v->words[*id];
        if (w->count > 1 && !rt_setting_repeats(rt_setting_table[*id].kind))
            RT_TRY(rt_fail(e, RT_USAGE, "%s is given twice", rt_setting_table[*id].flag));
        for (uint32_t i = 0; i < w->count; i++) RT_TRY(rt_settings_set(s, *id, w->text[i], e));
        if (v->on[*id]) RT_TRY(rt_settings_set(s, *id, "on", e));
    }
out:
    return rc;
}

/* The first setting that is given besides those of `kept`; null: none. */
static const char *other_setting(const cache_flags *v, const rt_setting_id *kept, uint32_t count)
{
    for (const rt_setting_id *id = rt_job_cache_settings; *id != RT_SETTING_COUNT_ALL; id++) {
        bool is_kept = false;
        for (uint32_t i = 0; i < count; i++) is_kept = is_kept || kept[i] == *id;
        if (!is_kept && (v->words[*id].count || v->on[*id])) return rt_setting_table[*id].flag;
    }
    return NULL;
}

/* The same of all flags. */
static const char *other_flag(const cache_flags *v, const rt_setting_id *kept, uint32_t count)
{
    const char *other = other_setting(v, kept, count);
    return other           ? other
           : v->keep       ? "--keep"
           : v->part       ? "--part"
           : v->from.count ? "--from"
           : v->to         ? "--to"
           : v->format     ? "--format"
           : v->tokens     ? "--tokens"
           : v->window     ? "--window"
                           : NULL;
}

/* What of the flags files of another tool have no use for, and a file for one, for which rows of the data are looked
 * up; null: nothing. */
static const char *unread(const cache_flags *v)
{
    static const rt_setting_id read[] = { RT_SETTING_ID_teacher,     RT_SETTING_ID_student, RT_SETTING_ID_base,
                                          RT_SETTING_ID_out,         RT_SETTING_ID_seq_len, RT_SETTING_ID_vocab,
                                          RT_SETTING_ID_temperature, RT_SETTING_ID_threads };
    const char *other = other_setting(v, read, sizeof read / sizeof *read);
    return other ? other : v->part ? "--part" : v->fill ? "--fill" : NULL;
}
static const char *unwritten(const cache_flags *v)
{
    static const rt_setting_id read[] = {
        RT_SETTING_ID_data,       RT_SETTING_ID_chat_template, RT_SETTING_ID_columns,
        RT_SETTING_ID_loss_on,    RT_SETTING_ID_template_var,  RT_SETTING_ID_skip_bad,
        RT_SETTING_ID_allow_drop, RT_SETTING_ID_vocab,         RT_SETTING_ID_threads
    };
    const char *other = other_setting(v, read, sizeof read / sizeof *read);
    return other           ? other
           : v->join.count ? "--join"
           : v->fill       ? "--fill"
           : v->keep       ? "--keep"
           : v->part       ? "--part"
           : v->window     ? "--window"
                           : NULL;
}

/* A flag that would have no effect is an error. */
static int check_flags(const cache_flags *v, rt_err *e)
{
    const rt_setting_id out = RT_SETTING_ID_out;
    const char *other = NULL;
    if (v->to && (!v->looked.count || v->from.count))
        return rt_fail(e, RT_USAGE, "--to is written of a cache: retort cache C --data D --to %s", v->to);
    if (v->to) {
        other = unwritten(v);
        return other ? rt_fail(e, RT_USAGE, "%s has no effect on a file for another tool; leave it out", other) : RT_OK;
    }
    if (v->looked.count) {
        other = v->join.count ? "--join" : v->fill ? "--fill" : other_flag(v, NULL, 0);
        if (other)
            return rt_fail(
                e, RT_USAGE,
                "%s has no effect: retort cache %s only shows the cache; to make or fill one, name it with --out",
                other, v->looked.text[0]);
    } else if (v->join.count && (other = other_flag(v, &out, 1))) {
        return rt_fail(e, RT_USAGE, "--join runs no teacher; leave %s out", other);
    } else if (v->from.count && (other = unread(v))) {
        return rt_fail(e, RT_USAGE, "%s has no effect on files of another tool; leave it out", other);
    } else if (!v->from.count && (v->format || v->tokens || v->window)) {
        return rt_fail(e, RT_USAGE, "%s needs --from", v->format ? "--format" : v->tokens ? "--tokens" : "--window");
    }
    return RT_OK;
}

static int parse_part(const char *text, uint32_t *part, uint32_t *parts, rt_err *e)
{
    unsigned a, b;
    char end;
    if (!text) return RT_OK;
    if (*text < '0' || *text > '9' || sscanf(text, "%u/%u%c", &a, &b, &end) != 2 || a < 1 || a > b || b > 65536)
        return rt_fail(e, RT_USAGE, "--part takes I/N, such as 1/4 to 4/4; not '%s'", text);
    *part = a;
    *parts = b;
    return RT_OK;
}

static int print_json(const rt_job_cached *c, rt_err *e)
{
    json_t *j =
        json_pack("{s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:s}", "keep", c->keep, "temperature",
                  c->temperature, "seq_len", (json_int_t)c->seq_len, "positions", (json_int_t)c->positions, "held_out",
                  (json_int_t)c->held, "bytes", (json_int_t)c->bytes, "held_out_bytes", (json_int_t)c->held_bytes,
                  "rows_computed", (json_int_t)c->computed, "tokens_computed", (json_int_t)c->tokens, "seconds",
                  c->seconds, "forward_seconds", c->forward, "head_seconds", c->head, "content_hash", c->content);
    return rt_print_json(j, e);
}

static double each(uint64_t bytes, uint64_t positions) { return positions ? (double)bytes / (double)positions : 0; }

static void print_text(const rt_job_cached *c, const char *path)
{
    char size[32], held[48] = "";
    if (c->held) snprintf(held, sizeof held, ", %.1f per held-out one", each(c->held_bytes, c->held));
    for (uint32_t i = 0; i < c->notes.count; i++) rt_say("note", "%s", c->notes.text[i]);
    rt_say("cache", "%s", path);
    rt_say("keeps", "%s at temperature %g, rows of %u tokens", c->keep, c->temperature, c->seq_len);
    rt_say("positions", "%llu for training, %llu held out", (unsigned long long)c->positions,
           (unsigned long long)c->held);
    rt_say("size", "%s, %.1f bytes per training position%s", rt_format_bytes(size, c->bytes + c->held_bytes),
           each(c->bytes, c->positions), held);
    if (c->computed && c->remote)
        rt_say("asked", "%llu rows of a server now, %.0f tokens/s; %llu requests were made again",
               (unsigned long long)c->computed, (double)c->tokens / c->seconds, (unsigned long long)c->repeats);
    else if (c->computed)
        rt_say("computed",
               "%llu rows this time, %.0f tokens/s; %.0f %% of the time in the teacher's layers, %.0f %% in its head",
               (unsigned long long)c->computed, (double)c->tokens / c->seconds, 100 * c->forward / c->seconds,
               100 * c->head / c->seconds);
    rt_say("content", "%s", c->content);
}

/* The command that uses what was made just now. */
static void print_next(const rt_settings *s)
{
    rt_put("next      retort distill --teacher");
    rt_print_word(s->out, "");
    rt_put(" --student STUDENT --data");
    if (s->data.count == 1)
        rt_print_word(s->data.text[0], "");
    else
        rt_put(" DATA");
    rt_put(" --out OUT\n");
}

static int run(const cache_flags *v, rt_err *e)
{
    int rc;
    rt_settings s = { 0 };
    rt_job_env env = rt_cli_env(0);
    rt_job_cached c = { 0 };
    rt_job_cache_opts o = { .settings = &s,
                            .keep = v->keep,
                            .fill = v->fill,
                            .join = v->join.text,
                            .join_count = v->join.count,
                            .from = v->from.text,
                            .from_count = v->from.count,
                            .format = v->format,
                            .tokens = v->tokens,
                            .window = v->window,
                            .to = v->to,
                            .of = v->to ? v->looked.text[0] : NULL,
                            .env = &env,
                            .progress = rt_live_progress };
    RT_TRY(check_flags(v, e));
    RT_TRY(take_settings(&s, v, e));
    RT_TRY(parse_part(v->part, &o.part, &o.parts, e));
    rt_interrupt_catch();
    if (!v->quiet) rt_live_begin(stderr);
    rc = v->looked.count && !v->to ? rt_job_cache_look(&c, v->looked.text[0], o.progress, NULL, e)
                                   : rt_job_cache(&c, &o, e);
    rt_live_end();
    RT_TRY(rc);
    if (v->json)
        RT_TRY(print_json(&c, e));
    else if (!v->quiet)
        print_text(&c, v->looked.count ? v->looked.text[0] : s.out);
    if (!v->json && !v->quiet && !v->looked.count && !v->from.count) print_next(&s);
out:
    rt_job_cached_free(&c);
    return rc;
}

int rt_cmd_cache(int argc, char **argv, rt_err *e)
{
    static cache_flags v;
    bool help;
    make_flags(&v);
    const rt_command c = {
        .name = "cache",
        .usage = "retort cache --teacher T --data D --out C [flags], or retort cache C",
        .text = "Runs a teacher over a text once and stores its probabilities: retort distill --teacher C then trains\n"
                "students without the teacher's files, with any seed, batch size or number of epochs. A position is\n"
                "looked up by the tokens before it, whatever the order of the text. retort cache C shows what a cache\n"
                "holds, and reads and checks all of it.",
        .example = "retort cache --teacher Qwen/Qwen2.5-7B --data chats.jsonl --keep topk:64 --out cache",
        .flags = v.flags,
        .max_words = 1,
        .words = &v.looked,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    return rc < 0 || help ? rc : run(&v, e);
}
