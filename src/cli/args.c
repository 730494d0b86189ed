/* args.c - flags from a table: parsing. What was meant by an argument that is none is args_guess.c's, help help.c's. */
#include "cli/cli.h"

#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_word(const rt_command *c, rt_words *words, uint32_t most, const char *text, rt_err *e)
{
    const char *flag = rt_guess_flag_of(c, text);
    if (flag && words->count == most)
        return rt_fail(e, RT_USAGE, "retort %s: '%s' is one argument too many; did you mean %s '%s'?", c->name, text,
                       flag, text);
    if (words->count == most || words->count == RT_MAX_WORDS)
        return rt_fail(e, RT_USAGE, "retort %s: '%s' is one argument too many; usage: %s", c->name, text, c->usage);
    words->text[words->count++] = text;
    return RT_OK;
}

static int set_value(const rt_command *c, const rt_flag *f, const char *text, rt_err *e)
{
    char *end;
    switch (f->kind) {
    case RT_FLAG_TEXT: *(const char **)f->value = text; return RT_OK;
    case RT_FLAG_BYTES:
        if (rt_parse_bytes(text, f->value)) return RT_OK;
        return rt_fail(e, RT_USAGE, "retort %s: %s takes a size such as 512M or 24GiB, not '%s'", c->name, f->name,
                       text);
    case RT_FLAG_COUNT: {
        errno = 0;
        unsigned long v = strtoul(text, &end, 10);
        if (errno || *end || end == text || text[0] == '-' || v == 0 || v > UINT32_MAX)
            return rt_fail(e, RT_USAGE, "retort %s: %s takes a whole number from 1, not '%s'", c->name, f->name, text);
        *(uint32_t *)f->value = (uint32_t)v;
        return RT_OK;
    }
    case RT_FLAG_WHOLE: {
        errno = 0;
        unsigned long long v = strtoull(text, &end, 10);
        if (errno || *end || end == text || text[0] == '-')
            return rt_fail(e, RT_USAGE, "retort %s: %s takes a whole number from 0, not '%s'", c->name, f->name, text);
        *(uint64_t *)f->value = v;
        return RT_OK;
    }
    case RT_FLAG_REAL: {
        double v = strtod(text, &end);
        if (*end || end == text || !isfinite(v))
            return rt_fail(e, RT_USAGE, "retort %s: %s takes a number, not '%s'", c->name, f->name, text);
        *(double *)f->value = v;
        return RT_OK;
    }
    case RT_FLAG_LIST: return add_word(c, f->value, f->value == c->words ? c->max_words : RT_MAX_WORDS, text, e);
    default: break;
    }
    return rt_fail(e, RT_INTERNAL, "flag %s has no kind", f->name);
}

/* All that is no flag after a name of another tool: `--lora_target_modules q_proj v_proj`, `--max_steps -1`, `--bf16`.
 */
static int take_many(const rt_command *c, rt_words *words, int argc, char **argv, int *i, rt_err *e)
{
    int rc = RT_OK;
    for (; rc >= 0 && *i + 1 < argc; ++*i) {
        const char *next = argv[*i + 1];
        if (next[0] == '-' && next[1] && !strchr("0123456789.", next[1])) break;
        rc = add_word(c, words, RT_MAX_WORDS, next, e);
    }
    return rc;
}

/* By this name or another. */
static bool is_given(const rt_command *c, const rt_flag *flag, const bool *given)
{
    const rt_flag *const tables[] = { c->flags, c->aliases };
    int index = 0;
    for (int t = 0; t < 2; t++)
        for (const rt_flag *f = tables[t]; f && f->name; f++, index++)
            if (given[index] && f->value == flag->value) return true;
    return false;
}

/* One argument that starts with dashes, with its value, at *i; *i is left at the last that was used. given[k]: the k-th
 * flag of the table was there before. */
static int take_flag(const rt_command *c, int argc, char **argv, int *i, bool *given, rt_err *e)
{
    const char *word = argv[*i], *eq = strchr(word, '=');
    int index;
    const rt_flag *f = rt_args_find(c, word, eq ? (size_t)(eq - word) : strlen(word), &index);
    if (!f) return rt_guess_unknown(c, word, e);
    if (index >= RT_MAX_FLAGS) return rt_fail(e, RT_INTERNAL, "retort %s has over %d flags", c->name, RT_MAX_FLAGS);
    if (f->kind != RT_FLAG_LIST && is_given(c, f, given))
        return rt_fail(e, RT_USAGE, "retort %s: %s is given twice", c->name, f->name);
    given[index] = true;
    if (f->kind == RT_FLAG_BOOL) {
        if (eq && strcmp(f->name, "--resume") == 0) return rt_guess_resume(c->name, false, eq + 1, e);
        if (eq) return rt_fail(e, RT_USAGE, "retort %s: %s takes no value", c->name, f->name);
        *(bool *)f->value = true;
        return RT_OK;
    }
    if (f->kind == RT_FLAG_MANY) {
        rt_words *words = f->value;
        words->given = true;
        return eq ? add_word(c, words, RT_MAX_WORDS, eq + 1, e) : take_many(c, words, argc, argv, i, e);
    }
    bool next = *i + 1 < argc && argv[*i + 1][0] != '-';
    if (!eq && !next && rt_setting_stands_alone(f->metavar)) return set_value(c, f, "on", e);
    if (!eq && *i + 1 == argc)
        return rt_fail(e, RT_USAGE, "retort %s: %s needs a value (%s)", c->name, f->name, f->metavar);
    return set_value(c, f, eq ? eq + 1 : argv[++*i], e);
}

/* --out OUT instead of the last word, where the command has it there; other tools have other names for it. */
static bool is_out(const rt_command *c, const char *word, size_t len)
{
    static const char *const names[] = { "--out", "--output", "--outfile", "-o" };
    int index;
    for (size_t i = 0; c->out_word && i < sizeof names / sizeof *names; i++)
        if (rt_args_named(names[i], word, len)) return !rt_args_find(c, word, len, &index);
    return false;
}

static int take_out(const rt_command *c, int argc, char **argv, int *i, const char **out, rt_err *e)
{
    const char *eq = strchr(argv[*i], '=');
    if (*out) return rt_fail(e, RT_USAGE, "retort %s: --out is given twice", c->name);
    if (!eq && *i + 1 == argc) return rt_fail(e, RT_USAGE, "retort %s: --out needs a value (OUT)", c->name);
    *out = eq ? eq + 1 : argv[++*i];
    return RT_OK;
}

static int end_words(const rt_command *c, const char *out, rt_err *e)
{
    int rc = out ? add_word(c, c->words, c->max_words, out, e) : RT_OK;
    if (rc < 0 || !c->words || c->words->count >= c->min_words) return rc;
    return rt_fail(e, RT_USAGE, "retort %s: %s is missing; usage: %s", c->name,
                   c->words->count ? "an argument" : "its first argument", c->usage);
}

/* Every argument; of several that are wrong each has its line. */
static int take_all(const rt_command *c, int argc, char **argv, rt_err *e)
{
    bool only_words = false, given[RT_MAX_FLAGS] = { false };
    const char *out = NULL;
    uint32_t wrong = 0;
    rt_err first = { 0 };
    for (int i = 0; i <= argc; i++) {
        int rc = RT_OK, index, at = i;
        bool flag = i < argc && !only_words && argv[i][0] == '-' && argv[i][1];
        size_t len = flag ? strcspn(argv[i], "=") : 0;
        if (i == argc)
            rc = wrong ? RT_OK : end_words(c, out, e);
        else if (flag && strcmp(argv[i], "--") == 0)
            only_words = true;
        else if (flag && is_out(c, argv[i], len))
            rc = take_out(c, argc, argv, &i, &out, e);
        else if (flag)
            rc = take_flag(c, argc, argv, &i, given, e);
        else if (c->words && c->words->count < c->max_words)
            rc = add_word(c, c->words, c->max_words, argv[i], e);
        else if (!c->words || !wrong)
            rc = rt_guess_words(c, argc, argv, &i, e);
        if (rc >= 0) continue;
        if (rc != RT_USAGE) return rc;
        if (wrong++ == 1) rt_put_to(stderr, "%s\n", first.text);
        if (wrong > 1) rt_put_to(stderr, "%s\n", e->text);
        if (wrong == 1) first = *e;
        /* The value of a flag that is not known is no fault of its own. */
        if (flag && !rt_args_find(c, argv[at], len, &index) && !argv[at][len])
            while (i + 1 < argc && argv[i + 1][0] != '-') i++;
    }
    if (wrong == 1) return *e = first, RT_USAGE;
    return wrong ? rt_fail(e, RT_USAGE, "retort %s: %u arguments are wrong", c->name, wrong) : RT_OK;
}

int rt_args_parse(const rt_command *c, int argc, char **argv, bool *help, rt_err *e)
{
    for (int i = 0; i < argc; i++) {
        bool json = strcmp(argv[i], "--help=json") == 0;
        *help = json || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        if (json) return rt_help_json(c, e);
        if (*help) return rt_help_print(c), RT_OK;
    }
    *help = false;
    return take_all(c, argc, argv, e);
}
