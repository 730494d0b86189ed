/* args_guess.c - what was meant by a word that no flag, no argument and no command takes: the nearest name, what other
 * tools call it, a pattern that the shell has expanded, a run to be resumed. Only a name that
 * means the same is taken; the rest is answered with what to type. */
#include "cli/cli.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

static bool is_bare(const char *word) { return word[0] != '-' || !word[1]; }

/* ---- flags ---- */

bool rt_args_named(const char *name, const char *word, size_t len)
{
    if (strlen(name) != len) return false;
    for (size_t i = 0; i < len; i++) {
        bool join = i > 1 && (name[i] == '_' || name[i] == '-') && (word[i] == '_' || word[i] == '-');
        if (name[i] != word[i] && !join) return false;
    }
    return true;
}

const rt_flag *rt_args_find(const rt_command *c, const char *name, size_t len, int *index)
{
    const rt_flag *const tables[] = { c->flags, c->aliases };
    *index = 0;
    for (int t = 0; t < 2; t++)
        for (const rt_flag *f = tables[t]; f && f->name; f++, ++*index)
            if (rt_args_named(f->name, name, len)) return f;
    return NULL;
}

const char *rt_guess_flag_of(const rt_command *c, const char *word)
{
    bool yaml = rt_path_ends(word, ".yaml") || rt_path_ends(word, ".yml");
    const char *flag = yaml ? "--config" : "--prompt";
    int index;
    return word[0] != '-' && rt_args_find(c, flag, strlen(flag), &index) ? flag : NULL;
}

/* What other programs call a flag that the command has; null: nothing. */
static const char *synonym(const rt_command *c, const char *word)
{
    static const char *const words[][2] = { { "--output", "--out" },      { "-o", "--out" },
                                            { "--train-data", "--data" }, { "--train_data", "--data" },
                                            { "--tokens", "--max-new" },  { "--outtype", "--dtype" },
                                            { "--type", "--dtype" },      { "--num-layers", "--depth" },
                                            { "--model", "--student" } };
    int index;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i][0]) == 0 && rt_args_find(c, words[i][1], strlen(words[i][1]), &index))
            return words[i][1];
    return NULL;
}

int rt_guess_unknown(const rt_command *c, const char *word, rt_err *e)
{
    const char *names[RT_MAX_FLAGS + 2] = { "--help" };
    const rt_flag *const tables[] = { c->flags, c->aliases };
    int n = 1;
    for (int t = 0; t < 2; t++)
        for (const rt_flag *f = tables[t]; f && f->name && n <= RT_MAX_FLAGS; f++) names[n++] = f->name;
    const char *near = rt_guess_flag_of(c, word);
    if (near)
        return rt_fail(e, RT_USAGE, "retort %s: unknown argument '%s'; did you mean %s %s? see retort %s --help",
                       c->name, word, near, word, c->name);
    near = synonym(c, word);
    if (!near) near = rt_nearest(word, names);
    return rt_fail(e, RT_USAGE, "retort %s: unknown %s '%s'%s%s%s see retort %s --help", c->name,
                   word[0] == '-' ? "flag" : "argument", word, near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : ";", c->name);
}

/* ---- a run to be resumed ---- */

int rt_guess_resume(const char *name, bool theirs, const char *word, rt_err *e)
{
    rt_arena a = { 0 };
    const char *run = rt_run_of_path(&a, word), *near = run ? NULL : rt_run_nearest(&a, word);
    const char *command = run || near ? rt_run_resume_command(&a, run ? run : near) : NULL;
    if (!command) command = rt_arena_printf(&a, "retort %s --resume --out OUT", name);
    int rc = rt_fail(e, RT_USAGE, "retort %s: %s, and --out names the run; %s%s%s%s", name,
                     theirs ? "--resume_from_checkpoint is --resume here" : "--resume takes no value",
                     near ? "did you mean " : "", near ? rt_path_base(near) : "say", near ? "? " : ": ",
                     command ? command : "");
    rt_arena_free(&a);
    return rc;
}

/* ---- words that no flag takes ---- */

/* The folder that both lie in, without its slash; empty: none. */
static size_t shared_folder(const char *a, const char *b)
{
    const char *slash = strrchr(a, '/');
    size_t n = slash ? (size_t)(slash - a) : 0;
    return n && strncmp(a, b, n + 1) == 0 && !strchr(b + n + 1, '/') ? n : 0;
}

/* Several paths after a flag that takes one: a pattern without quotes. */
static int expanded(const rt_command *c, const char *flag, const char *value, uint32_t more, const char *last,
                    rt_err *e)
{
    int folder = (int)shared_folder(value, last);
    if (more == 1)
        return rt_fail(e, RT_USAGE,
                       "retort %s: %s takes one path, and '%s' follows it: repeat the flag, %s %s %s %s; or give a "
                       "folder, or a pattern in quotes",
                       c->name, flag, last, flag, value, flag, last);
    return rt_fail(e, RT_USAGE,
                   "retort %s: %s takes one path, and %u more follow '%s': the shell expanded a pattern; put it in "
                   "quotes, or give the folder%s%s%s%.*s",
                   c->name, flag, more, value, folder ? ": " : "", folder ? flag : "", folder ? " " : "", folder,
                   value);
}

int rt_guess_words(const rt_command *c, int argc, char **argv, int *i, rt_err *e)
{
    int first = *i, from = *i, index;
    const char *word = argv[first];
    while (from > 0 && is_bare(argv[from - 1])) from--;
    while (*i + 1 < argc && is_bare(argv[*i + 1])) ++*i;
    const char *flag = from ? argv[from - 1] : "";
    const rt_flag *f = *flag ? rt_args_find(c, flag, strlen(flag), &index) : NULL;
    uint32_t count = (uint32_t)(*i - first) + 1;
    if (f && f->kind == RT_FLAG_BOOL && strcmp(f->name, "--resume") == 0)
        return rt_guess_resume(c->name, false, argv[from], e);
    if (f && f->kind == RT_FLAG_LIST && from < first && strstr(f->name, "data") && !rt_path_ends(word, ".yaml"))
        return expanded(c, f->name, argv[from], (uint32_t)(*i - from), argv[*i], e);
    const char *near = rt_guess_flag_of(c, word);
    if (c->words && near)
        return rt_fail(e, RT_USAGE, "retort %s: '%s' is one argument too many; did you mean %s '%s'?", c->name, word,
                       near, word);
    if (c->words)
        return rt_fail(e, RT_USAGE, "retort %s: '%s' is one argument too many; usage: %s", c->name, word, c->usage);
    if (count == 1) return rt_guess_unknown(c, word, e);
    return rt_fail(e, RT_USAGE, "retort %s: %u unknown arguments, from '%s' to '%s'; a text with blanks goes in quotes",
                   c->name, count, word, argv[*i]);
}

/* ---- commands ---- */

/* Names that mean a command of ours exactly: it is run. */
static const char *const same[][2] = { { "evaluate", "eval" },
                                       { "sft", "train" },
                                       { "finetune", "train" },
                                       { "fine-tune", "train" },
                                       { "quantise", "quantize" } };

/* Names of what is done otherwise here. */
static const char *const other[][2] = {
    { "prune", "retort init --from TEACHER --depth N OUT makes a student of some of its layers" },
    { "download", "hf download ORG/NAME fetches a model, and every command then takes ORG/NAME" },
    { "pull", "hf download ORG/NAME fetches a model, and every command then takes ORG/NAME" },
};

const char *rt_guess_command(const char *word)
{
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(word, same[i][0]) == 0) return same[i][1];
    return word;
}

int rt_guess_unknown_command(const char *word, int argc, char **argv, const char *const *names, rt_err *e)
{
    if (strcmp(word, "resume") == 0) {
        rt_arena a = { 0 };
        const char *out = NULL, *run, *command;
        for (int i = 0; i < argc && !out; i++)
            if (is_bare(argv[i])) out = argv[i];
        run = out ? rt_run_of_path(&a, out) : NULL;
        if (out && !run) run = rt_run_nearest(&a, out);
        command = run ? rt_run_resume_command(&a, run) : NULL;
        int rc = rt_fail(e, RT_USAGE, "retort: no command 'resume'; the command that began a run resumes it: %s",
                         command ? command : "retort distill --resume --out OUT");
        rt_arena_free(&a);
        return rc;
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcmp(word, other[i][0]) == 0)
            return rt_fail(e, RT_USAGE, "retort: no command '%s'; %s", word, other[i][1]);
    const char *near = rt_nearest(word, names);
    return rt_fail(e, RT_USAGE, "retort: unknown command '%s'%s%s%s see retort --help", word,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : ";");
}
