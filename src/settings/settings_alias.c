/* settings_alias.c - the rules that make a value of another tool's name one of ours (aliases.h has the names).
 *
 * Owns: the rules. A name that asks for something that does not exist here is refused with the reason; one that has no
 * effect here is accepted and noted. Which trainer a file was written for is settings_trainer.c's. */
#include "settings/aliases.h"
#include "settings/aliases_idle.h"
#include "settings/aliases_refused.h"
#include "settings/settings_internal.h"

#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct alias alias;
typedef int (*alias_fn)(rt_setting_source *f, rt_setting_entry *x, const alias *a);
struct alias {
    const char *name;
    rt_tool tool;
    alias_fn fn;
    rt_setting_id id;
    const char *yes, *no; /* see RT_ALIAS_MAPPED */
};

/* ---- telling ---- */

int rt_source_told(rt_setting_source *f, const rt_setting_entry *x, const char *format, ...)
{
    char text[480];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, 400, format, args);
    va_end(args);
    if (n > 399) n = 399;
    if (x->won) snprintf(text + n, sizeof text - (size_t)n, " (the command line's %.40s wins)", x->won);
    return rt_source_note(f, f->notes, x->line, text);
}

static int set_and_tell(rt_setting_source *f, rt_setting_entry *x, rt_setting_id id, const char *text)
{
    int rc = rt_source_set(f, x, id, text);
    return rc < 0 ? rc : rt_source_told(f, x, "%s -> %s %s", x->name, rt_setting_table[id].flag, text);
}

rt_setting_entry *rt_alias_entry(const rt_setting_source *f, const char *name)
{
    uint32_t index = rt_alias_find(name);
    rt_setting_entry *found = NULL;
    for (rt_setting_entry *x = f->first; x; x = x->next)
        if (x->id == RT_SETTING_COUNT_ALL && x->alias == index && !x->null && (!found || rt_source_beaten(found, x)))
            found = x;
    return found;
}

rt_setting_entry *rt_alias_either(const rt_setting_source *f, const char *one, const char *two)
{
    rt_setting_entry *x = rt_alias_entry(f, one), *y = rt_alias_entry(f, two);
    return x && !(y && rt_source_beaten(x, y)) ? x : y;
}

static int number(rt_setting_source *f, const rt_setting_entry *x, double *out)
{
    char *end;
    *out = x->count ? strtod(x->value[0], &end) : 0;
    if (!x->count || *end || end == x->value[0] || !isfinite(*out))
        return rt_source_refuse(f, x->line, "'%s' takes a number, not '%.80s'", x->name, x->count ? x->value[0] : "");
    return RT_OK;
}

/* Whether the run is a number of steps, tokens or hours, and not of epochs. What the command line says of its length
 * stands before what the file says. */
static bool not_epochs(const rt_setting_source *f)
{
    static const rt_setting_id ids[] = { RT_SETTING_ID_steps, RT_SETTING_ID_tokens, RT_SETTING_ID_time };
    const rt_setting_entry *steps = rt_alias_entry(f, "max_steps"), *epochs = f->by[RT_SETTING_ID_epochs];
    if (!epochs || epochs->where) epochs = rt_alias_either(f, "num_epochs", "num_train_epochs");
    if (steps && !(atof(steps->count ? steps->value[0] : "") > 0)) steps = NULL;
    for (int i = 0; i < 3 && !(steps && !steps->where); i++)
        if (f->by[ids[i]]) steps = f->by[ids[i]];
    return steps && !(epochs && rt_source_beaten(steps, epochs));
}

/* ---- rules ---- */

/* The same value under another name. */
static int same(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < x->count; i++) RT_TRY(set_and_tell(f, x, a->id, x->value[i]));
out:
    return rc;
}

/* Paths, from the list of a file. */
static int datasets(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    if (!x->count) return rt_source_refuse(f, x->line, "'%s' names no path", x->name);
    return same(f, x, a);
}

/* Names with commas between them. */
static int names(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < x->count; i++)
        for (const char *p = x->value[i]; *p;) {
            size_t n = strcspn(p, ",");
            const char *name = rt_arena_printf(f->arena, "%.*s", (int)n, p + strspn(p, " "));
            if (!name) RT_TRY(rt_no_memory(f->e, "settings"));
            if (strchr(name, '#'))
                RT_TRY(rt_source_refuse(f, x->line, "'%s' takes a part of '%.80s'; cut the file, all of it is trained",
                                        x->name, name));
            if (*name) RT_TRY(set_and_tell(f, x, a->id, name));
            p += n + (p[n] != 0);
        }
out:
    return rc;
}

/* The field that has the text. */
static int text_field(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    if (strcmp(x->value[0], "text") == 0) return rt_source_told(f, x, "%s text has no effect: " RT_RECORDS, x->name);
    const char *text = rt_arena_printf(f->arena, "text=%s", x->value[0]);
    return text ? set_and_tell(f, x, a->id, text) : rt_no_memory(f->e, "settings");
}

bool rt_setting_names_file(const char *path)
{
    static const char *const ends[] = { ".jsonl", ".json", ".parquet", ".csv", ".tsv", ".txt", ".gz", ".zst" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (rt_path_ends(path, ends[i])) return true;
    return false;
}

/* A split of the data, which is to be one folder or name: PATH:SPLIT, to train on or to evaluate on. */
static int split(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    rt_setting_list *data = &f->settings.data;
    bool train = a->id == RT_SETTING_ID_data, one = data->count == 1 && !(train && strchr(data->text[0], ':'));
    if (strcmp(x->value[0], a->no) == 0)
        return rt_source_told(f, x, "%s %s has no effect: it is so here", x->name, x->value[0]);
    if (f->by[RT_SETTING_ID_data] && rt_source_beaten(x, f->by[RT_SETTING_ID_data]))
        return rt_source_told(f, x, "%s has no effect: the data are the command line's", x->name);
    if (strpbrk(x->value[0], "[]+"))
        return rt_source_refuse(
            f, x->line,
            "'%s' %.40s takes a part of the data; PATH,weight=0.1 takes a share of it in each pass, else cut "
            "the file",
            x->name, x->value[0]);
    if (!train && (f->by[a->id] || !one || rt_setting_names_file(data->text[0])))
        return rt_source_told(f, x, "%s has no effect: %s", x->name,
                              f->by[a->id] ? "other text is given to evaluate on"
                              : one        ? "the data is a file, and has no splits"
                                           : "it is not said of which data; --eval-data PATH:SPLIT takes a split");
    if (train && (!one || rt_setting_names_file(data->text[0])))
        return rt_source_refuse(f, x->line, "'%s' names a split of one folder; say it with the data: PATH:SPLIT",
                                x->name);
    size_t bare = train ? strlen(data->text[0]) : strcspn(data->text[0], ":");
    const char *text = rt_arena_printf(f->arena, "%.*s:%s", (int)bare, data->text[0], x->value[0]);
    if (!text) return rt_no_memory(f->e, "settings");
    if (!train) return set_and_tell(f, x, a->id, text);
    data->text[0] = text;
    return rt_source_told(f, x, "%s -> --data %s", x->name, text);
}

/* What yes or no means. */
static int on_off(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    int yes = rt_setting_switch(x->value[0]);
    if (yes < 0) return rt_source_refuse(f, x->line, "'%s' is true or false, not '%.80s'", x->name, x->value[0]);
    const char *text = yes ? a->yes : a->no;
    int rc = rt_source_set(f, x, a->id, text);
    return rc < 0 ? rc
                  : rt_source_told(f, x, "%s %s -> %s %s", x->name, x->value[0], rt_setting_table[a->id].flag, text);
}

/* Of chats and of completions: where one is true, the other may be false and says nothing. */
static int only_loss(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    bool chats = strcmp(a->name, "assistant_only_loss") == 0;
    const rt_setting_entry *other = rt_alias_entry(f, chats ? "completion_only_loss" : "assistant_only_loss");
    const alias both = { a->name, a->tool, a->fn, a->id, "turns", "all" };
    int yes = rt_setting_switch(x->value[0]), theirs = other && other->count ? rt_setting_switch(other->value[0]) : -1;
    if (yes >= 0 && (theirs > yes || (theirs == yes && !chats)))
        return rt_source_told(f, x, "%s %s has no effect: %s decides", x->name, x->value[0], other->name);
    return on_off(f, x, &both);
}

/* A variable of the chat template. */
static int variable(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    int yes = rt_setting_switch(x->value[0]);
    const char *text = rt_arena_printf(f->arena, "%s=%s", a->name, yes < 0 ? x->value[0] : yes ? "true" : "false");
    return text ? set_and_tell(f, x, a->id, text) : rt_no_memory(f->e, "settings");
}

static int no_effect(rt_setting_source *f, rt_setting_entry *x, const alias *a);

/* Only the value that asks for nothing is possible: 0, false, none. */
static int off(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    const char *text = x->count == 1 && !x->map ? x->value[0] : "?";
    char *end;
    double v = strtod(text, &end);
    if (rt_setting_switch(text) == 0 || strcmp(text, "none") == 0 || (end != text && !*end && v == 0))
        return rt_source_told(f, x, "%s %s has no effect: it asks for nothing", x->name, text);
    return rt_source_refuse(f, x->line, "'%s' %s; set it to %s", x->name, a->yes, a->no);
}

static int one_of(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    const char *text = x->value[0];
    for (const char *p = a->yes; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strlen(text) == strcspn(p, " ") && strncmp(p, text, strlen(text)) == 0)
            return rt_source_told(f, x, "%s %s has no effect: it is so here", x->name, text);
    return rt_source_refuse(f, x->line, "'%s' %.40s %s", x->name, text, a->no);
}

/* Its names were read as names of the file. */
static int inside(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    (void)a;
    return x->map ? RT_OK : rt_source_refuse(f, x->line, "'%s' is a map; give the names in it", x->name);
}

/* Theirs have underscores, ours are adamw, adamw-bf16 and adamw-8bit. Where nothing here is what they say, the nearest
 * is taken and said. Under our own name whatever else it is stands, unless the source is strict; it is looked at when
 * the run is made. */
int rt_alias_optimizer(rt_setting_source *f, rt_setting_entry *x)
{
    const char *text = x->value[0];
    bool paged = strncmp(text, "paged_adamw", 11) == 0, bits = strstr(text, "_8bit"), four = strstr(text, "_4bit");
    bool theirs = paged || strncmp(text, "adamw_", 6) == 0;
    if (!theirs && ((x->id == RT_SETTING_ID_optimizer && !(x->where && f->strict)) || strncmp(text, "adamw", 5) == 0))
        return rt_source_set(f, x, RT_SETTING_ID_optimizer, text);
    if (!theirs)
        return rt_source_refuse(
            f, x->line, "'%s' asks for '%.40s', and the optimizer is AdamW; use adamw, adamw-bf16 or adamw-8bit",
            x->name, text);
    const char *ours = bits || four ? "adamw-8bit" : "adamw";
    int rc = rt_source_set(f, x, RT_SETTING_ID_optimizer, ours);
    if (rc < 0) return rc;
    return rt_source_told(f, x, "%s %s -> --optimizer %s (%s%s)", x->name, text, ours,
                          four   ? "assumed: moments of 4 bits are not built"
                          : bits ? "blocks of 128, rounded by chance"
                                 : "moments in f32",
                          paged ? "; nothing is paged, and the plan says what it takes" : "");
}

static int optimizer(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    (void)a;
    return rt_alias_optimizer(f, x);
}

static int rate(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v;
    int rc = same(f, x, a);
    if (rc >= 0) rc = number(f, x, &v);
    return rc >= 0 && v == 0 ? rt_source_told(f, x, "%s is 0: nothing will be trained", x->name) : rc;
}

/* A rate, as a share of the highest one. */
static int least_rate(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v, peak = 0;
    char text[RT_SETTING_DIGITS];
    const rt_setting_entry *own = f->by[RT_SETTING_ID_lr], *given = rt_alias_entry(f, "learning_rate");
    if (own && own->id == RT_SETTING_ID_lr && !(given && rt_source_beaten(own, given))) given = own;
    int rc = number(f, x, &v);
    if (rc >= 0 && given) rc = number(f, given, &peak);
    if (rc < 0) return rc;
    if (!(peak > 0) || v < 0 || v > peak)
        return rt_source_refuse(f, x->line,
                                "'%s' is a rate from 0 to that of learning_rate, which has to be given; "
                                "min_lr_rate is a share of it",
                                x->name);
    const char *share = rt_arena_strdup(f->arena, rt_setting_digits(text, floor(v / peak * 1e9 + 0.5) / 1e9));
    if (!share) return rt_no_memory(f->e, "settings");
    rc = rt_source_set(f, x, a->id, share);
    return rc < 0 ? rc
                  : rt_source_told(f, x, "%s %s of %s %s -> --lr-floor %s", x->name, x->value[0], given->name,
                                   given->value[0], share);
}

/* Theirs keeps all without a positive number. */
static int most_kept(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v;
    int rc = number(f, x, &v);
    if (rc < 0 || v > 0) return rc < 0 ? rc : same(f, x, a);
    rc = rt_source_set(f, x, a->id, "1000000");
    return rc < 0 ? rc : rt_source_told(f, x, "%s %s -> --keep 1000000: all of them", x->name, x->value[0]);
}

/* Without a positive number theirs is off. */
static int most_steps(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v;
    int rc = number(f, x, &v);
    if (rc < 0) return rc;
    return v <= 0 ? rt_source_told(f, x, "%s %s has no effect: it is off", x->name, x->value[0]) : same(f, x, a);
}

static int epochs(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    const rt_setting_entry *steps = rt_alias_entry(f, "max_steps");
    if (steps && not_epochs(f) && !rt_source_beaten(x, steps))
        return rt_source_told(f, x, "%s has no effect: %s decides", x->name, steps->name);
    return same(f, x, a);
}

/* A share below 1 is one of the whole run. */
static int put_share(rt_setting_source *f, rt_setting_entry *x, rt_setting_id id, double share)
{
    char text[RT_SETTING_DIGITS];
    /* of a hundred, without the digits that 100 * 0.07 has too many */
    rt_share v = { .value = floor(share * 1e12 + 0.5) / 1e10, .percent = true };
    int rc = rt_source_claim(f, x, id);
    if (rc < 0) return rc;
    if (!f->yields) rt_settings_put_share(&f->settings, id, v);
    return rt_source_told(f, x, "%s %s -> %s %s", x->name, x->value[0], rt_setting_table[id].flag,
                          rt_share_text(text, v));
}

static int interval(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v;
    rt_setting_entry *how = a->id == RT_SETTING_ID_eval_every
                                ? rt_alias_either(f, "eval_strategy", "evaluation_strategy")
                            : a->id == RT_SETTING_ID_save_every ? rt_alias_entry(f, "save_strategy")
                                                                : NULL;
    if (how && !rt_source_beaten(how, x) && how->count &&
        (strcmp(how->value[0], "epoch") == 0 || rt_setting_switch(how->value[0]) == 0))
        return rt_source_told(f, x, "%s has no effect: %s decides", x->name, how->name);
    int rc = number(f, x, &v);
    if (rc < 0) return rc;
    if (v <= 0 || (v > 1 && v != floor(v)))
        return rt_source_refuse(f, x->line, "'%s' is a number of steps, or a share of the run below 1; not '%.40s'",
                                x->name, x->value[0]);
    return v < 1 ? put_share(f, x, a->id, v) : same(f, x, a);
}

static int held_out(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v;
    int rc = number(f, x, &v);
    if (rc < 0) return rc;
    if (v == 0) return rt_source_told(f, x, "%s %s has no effect: some text is always held out", x->name, x->value[0]);
    return interval(f, x, a);
}

/* So many times in an epoch, as a share of all epochs: those that are said, wherever, or what a run has unless it is
 * said (job/resolve). */
static int in_epochs(rt_setting_source *f, rt_setting_entry *x, rt_setting_id id, double times)
{
    const rt_setting_entry *own = f->by[RT_SETTING_ID_epochs],
                           *given = rt_alias_either(f, "num_epochs", "num_train_epochs");
    double n = 3;
    if (not_epochs(f)) return rt_source_told(f, x, "%s has no effect: the length of the run is not in epochs", x->name);
    if (own && !(given && rt_source_beaten(own, given))) {
        n = f->settings.epochs;
    } else if (given) {
        int rc = number(f, given, &n);
        if (rc < 0) return rc;
    }
    if (!(times > 0) || !(n > 0))
        return rt_source_refuse(f, x->line, "'%s' is more than 0 times in an epoch, not '%.40s'", x->name, x->value[0]);
    return put_share(f, x, id, fmin(1, 1.0 / (times * n)));
}

static int per_epoch(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v;
    int rc = number(f, x, &v);
    return rc < 0 ? rc : in_epochs(f, x, a->id, v);
}

static int strategy(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    const char *text = x->value[0];
    if (strcmp(text, "epoch") == 0) return in_epochs(f, x, a->id, 1);
    if (rt_setting_switch(text) == 0) return put_share(f, x, a->id, 1); /* at the end alone */
    if (strcmp(text, "steps") != 0 && strcmp(text, "best") != 0)
        return rt_source_refuse(f, x->line, "'%s' is no, steps or epoch, not '%.40s'", x->name, text);
    return rt_source_told(f, x, "%s %s has no effect: %s is how often, and always at the end", x->name, text,
                          rt_setting_table[a->id].flag);
}

/* warmup_ratio and warmup_steps: whichever is 0 leaves it to the other. */
static int warmup(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    bool ratio = strcmp(a->name, "warmup_ratio") == 0;
    double v, w = 0;
    rt_setting_entry *other = rt_alias_entry(f, ratio ? "warmup_steps" : "warmup_ratio");
    if (other && rt_source_beaten(other, x)) other = NULL;
    int rc = number(f, x, &v);
    if (rc >= 0 && other) rc = number(f, other, &w);
    if (rc < 0) return rc;
    if (ratio && v != 0 && w != 0)
        return rt_source_told(f, x, "%s %s has no effect: %s decides", x->name, x->value[0], other->name);
    if (v == 0 && other && (w != 0 || other->line < x->line))
        return rt_source_told(f, x, "%s %s has no effect: %s decides", x->name, x->value[0], other->name);
    if (v == 0) {
        rc = rt_source_set(f, x, a->id, "0");
        return rc < 0 ? rc : rt_source_told(f, x, "%s %s -> --warmup 0", x->name, x->value[0]);
    }
    if (v < 0 || (ratio && v > 1) || (v > 1 && v != floor(v)))
        return rt_source_refuse(f, x->line, "'%s' is %s, not '%.40s'", x->name,
                                ratio ? "a share from 0 to 1" : "a number of steps, or a share below 1", x->value[0]);
    return v < 1 || ratio ? put_share(f, x, a->id, v) : same(f, x, a);
}

static int whole(rt_setting_source *f, const rt_setting_entry *x, uint64_t *out)
{
    const char *text = x->count ? rt_setting_whole(f->arena, x->value[0]) : "";
    char *end;
    if (!text) return rt_no_memory(f->e, "settings");
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '1' || text[0] > '9')
        return rt_source_refuse(f, x->line, "'%s' takes a whole number from 1, not '%.40s'", x->name, text);
    return RT_OK;
}

/* Rows at a time, and how many times before the optimizer's step. */
static int batch(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    rt_setting_entry *rows = rt_alias_either(f, "per_device_train_batch_size", "micro_batch_size"),
                     *times = rt_alias_entry(f, "gradient_accumulation_steps");
    uint64_t n = 0, k = 1, product;
    int rc = RT_OK;
    (void)a;
    if (!rows)
        return rt_source_refuse(f, x->line,
                                "'%s' needs per_device_train_batch_size: their product is --batch; give both, or batch "
                                "and micro_batch",
                                x->name);
    if (x == times) return RT_OK; /* done once, for both */
    RT_TRY(rt_source_claim(f, x, RT_SETTING_ID_micro_batch));
    bool few = !f->yields;
    RT_TRY(rt_source_claim(f, x, RT_SETTING_ID_batch));
    bool all = !f->yields;
    RT_TRY(whole(f, rows, &n));
    if (times) RT_TRY(whole(f, times, &k));
    if (!rt_mul_u64(n, k, &product))
        RT_TRY(rt_source_refuse(f, x->line, "'%s' times '%s' is too large", rows->name, times->name));
    if (few) RT_SETTINGS_PUT(&f->settings, micro_batch, n);
    if (all) RT_SETTINGS_PUT(&f->settings, batch, product);
    RT_TRY(rt_source_told(
        f, x, "%s %" PRIu64 ", %s %" PRIu64 " -> --micro-batch %" PRIu64 " --batch %" PRIu64 " (one device)", x->name,
        n, times ? times->name : "gradient_accumulation_steps", k, n, product));
out:
    return rc;
}

/* One of the two may be missing: then it is what theirs is. */
static int adam_betas(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    rt_setting_entry *one = rt_alias_entry(f, "adam_beta1"), *two = rt_alias_entry(f, "adam_beta2");
    const char *b1 = one ? one->value[0] : "0.9", *b2 = two ? two->value[0] : "0.999";
    double v;
    int rc = number(f, x, &v);
    if (rc < 0 || (one && two && x == two)) return rc;
    const char *text = rt_arena_printf(f->arena, "%s,%s", b1, b2);
    if (!text) return rt_no_memory(f->e, "settings");
    rc = rt_source_set(f, x, a->id, text);
    if (rc < 0) return rc;
    if (one && two) return rt_source_told(f, x, "%s %s, %s %s -> --betas %s", one->name, b1, two->name, b2, text);
    return rt_source_told(f, x, "%s %s -> --betas %s (the other as in transformers)", x->name, x->value[0], text);
}

static int tuning(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    const char *text = x->value[0];
    bool lora = strcmp(text, "lora") == 0 || strcmp(text, "qlora") == 0;
    if (!lora && strcmp(text, "full") != 0)
        return rt_source_refuse(f, x->line, "'%s' is lora or full, not '%.40s'; --freeze leaves parameters as they are",
                                x->name, text);
    int rc = rt_source_set(f, x, a->id, lora ? "on" : "off");
    if (rc < 0) return rc;
    return rt_source_told(f, x, "%s %s -> %s%s", x->name, text, lora ? "--lora" : "all parameters are trained",
                          *text == 'q' ? "; " RT_STORED : "");
}

static int all_targets(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    int yes = rt_setting_switch(x->value[0]);
    if (yes < 0) return rt_source_refuse(f, x->line, "'%s' is true or false, not '%.80s'", x->name, x->value[0]);
    if (!yes) return rt_source_told(f, x, "%s %s has no effect: it asks for nothing", x->name, x->value[0]);
    return set_and_tell(f, x, a->id, "all");
}

/* q_proj, k_proj ... as a list, with commas, or one; all-linear. */
static int targets(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    static const char *const parts[] = { "q", "k", "v", "o", "gate", "up", "down", NULL };
    rt_str list = { 0 };
    int rc = RT_OK;
    if (x->count == 1 && (strcmp(x->value[0], "all-linear") == 0 || strcmp(x->value[0], "all") == 0))
        return set_and_tell(f, x, a->id, "all");
    for (uint32_t i = 0; i < x->count; i++)
        for (const char *p = x->value[i]; *p;) {
            size_t n = strcspn(p, ", ");
            int k = 0;
            while (parts[k] && !(strncmp(p, parts[k], strlen(parts[k])) == 0 &&
                                 (n == strlen(parts[k]) ||
                                  (n == strlen(parts[k]) + 5 && strncmp(p + strlen(parts[k]), "_proj", 5) == 0))))
                k++;
            if (n && !parts[k])
                RT_TRY(rt_source_refuse(f, x->line,
                                        "'%s' has '%.*s'; adapters go on q_proj, k_proj, v_proj, o_proj, gate_proj, "
                                        "up_proj and down_proj",
                                        x->name, n > 40 ? 40 : (int)n, p));
            if (n) rt_str_printf(&list, "%s%s", list.len ? "," : "", parts[k]);
            p += n + (p[n] != 0);
        }
    const char *text = list.failed ? NULL : rt_arena_strdup(f->arena, list.data ? list.data : "");
    if (!text) RT_TRY(rt_no_memory(f->e, "settings"));
    RT_TRY(set_and_tell(f, x, a->id, text));
out:
    rt_str_free(&list);
    return rc;
}

/* ms-swift adds cross-entropy to a divergence of weight 1. */
static int sft_alpha(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    double v;
    int rc = number(f, x, &v);
    (void)a;
    if (rc >= 0) rc = rt_source_set(f, x, RT_SETTING_ID_kd_weight, "1");
    if (rc >= 0) rc = rt_source_set(f, x, RT_SETTING_ID_ce_weight, x->value[0]);
    return rc < 0 ? rc
                  : rt_source_told(f, x, "%s %s -> --kd-weight 1 --ce-weight %s", x->name, x->value[0], x->value[0]);
}

/* axolotl's KD has the weights that are said, and no cross-entropy where none is. */
static int kd_alpha(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    int rc = set_and_tell(f, x, a->id, x->value[0]);
    if (rc < 0 || rt_alias_entry(f, "kd_ce_alpha") || f->by[RT_SETTING_ID_ce_weight]) return rc;
    rc = rt_source_set(f, x, RT_SETTING_ID_ce_weight, "0");
    return rc < 0 ? rc : rt_source_told(f, x, "no kd_ce_alpha -> --ce-weight 0");
}

/* Theirs end at 0 and `constant` has no warm-up; both are part of what the name means, unless the file says more. */
static int scheduler(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    static const char *const theirs[] = {
        "cosine", "linear", "constant", "constant_with_warmup", "cosine_with_min_lr", "warmup_stable_decay", NULL
    };
    static const char *const ours[] = { "cosine", "linear", "constant", "constant", "cosine", "wsd" };
    int k = 0, rc;
    while (theirs[k] && strcmp(theirs[k], x->value[0]) != 0) k++;
    if (!theirs[k])
        return rt_source_refuse(f, x->line,
                                "'%s' is cosine, linear, constant, constant_with_warmup, cosine_with_min_lr or "
                                "warmup_stable_decay, not '%.40s'",
                                x->name, x->value[0]);
    bool floor_given = f->by[RT_SETTING_ID_lr_floor], still = strcmp(theirs[k], "constant") == 0;
    rt_setting_entry *warm = f->by[RT_SETTING_ID_warmup];
    if (strcmp(theirs[k], "cosine_with_min_lr") == 0 && !floor_given)
        return rt_source_refuse(f, x->line,
                                "'cosine_with_min_lr' needs min_lr_rate: 0.1 or the like, the share of the "
                                "rate at which it ends");
    bool over = still && warm && rt_source_beaten(warm, x); /* of the file, and the command line has none */
    if (still && warm && !over && warm->where == x->where && f->settings.warmup.value != 0)
        return rt_source_refuse(f, x->line,
                                "'constant' has no warm-up, and '%s' of line %u asks for one; say constant_with_warmup",
                                warm->name, warm->line);
    bool to_zero = !floor_given && strcmp(ours[k], "constant") != 0, cold = still && (!warm || over);
    RT_TRY(rt_source_set(f, x, a->id, ours[k]));
    if (to_zero) RT_TRY(rt_source_set(f, x, RT_SETTING_ID_lr_floor, "0"));
    if (cold) RT_TRY(rt_source_set(f, x, RT_SETTING_ID_warmup, "0"));
    RT_TRY(rt_source_told(f, x, "%s %s -> --schedule %s%s%s", x->name, x->value[0], ours[k],
                          to_zero ? " --lr-floor 0" : "", cold ? " --warmup 0" : ""));
out:
    return rc;
}

/* ---- the table ---- */

#define RT_SETTING_ID_none RT_SETTING_COUNT_ALL
static const alias table[] = {
#define X(name, tool, rule, setting, yes, no) { #name, RT_TOOL_##tool, rule, RT_SETTING_ID_##setting, yes, no },
    RT_ALIAS_MAPPED(X) RT_ALIAS_IDLE(X) RT_ALIAS_REFUSED(X)
#undef X
};
enum { ALIASES = sizeof table / sizeof *table };
_Static_assert((int)ALIASES < (int)RT_SETTINGS_NOTES, "a file may use every alias");

const char *rt_settings_alias_name(uint32_t i) { return i < ALIASES ? table[i].name : NULL; }

uint32_t rt_alias_find(const char *name)
{
    while (*name == '-') name++;
    for (uint32_t i = 0; i < ALIASES; i++) {
        const char *a = table[i].name, *b = name;
        while (*a && (*a == *b || (*a == '_' && *b == '-'))) a++, b++;
        if (!*a && !*b) return i;
    }
    return RT_ALIAS_NONE;
}

rt_alias_shape rt_alias_shape_of(uint32_t index)
{
    alias_fn fn = table[index].fn;
    if (fn == no_effect || fn == off) return RT_SHAPE_ANY;
    return fn == inside ? RT_SHAPE_INSIDE : fn == datasets ? RT_SHAPE_DATASETS : RT_SHAPE_PLAIN;
}

/* All names that have none for one reason are told at the first of them. */
static int no_effect(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    rt_str list = { 0 };
    uint32_t count = 0;
    int rc = RT_OK;
    for (rt_setting_entry *y = f->first; y; y = y->next) {
        if (y->id != RT_SETTING_COUNT_ALL || y->null || table[y->alias].fn != no_effect || y->where != x->where ||
            y->won)
            continue;
        if (strcmp(table[y->alias].yes, a->yes) != 0) continue;
        if (count == 0 && y != x) return RT_OK;
        rt_str_printf(&list, "%s%s", count++ ? ", " : "", y->name);
    }
    rt_str_printf(&list, " %s no effect: %s", count > 1 ? "have" : "has", a->yes);
    RT_TRY(list.failed ? rt_no_memory(f->e, "settings") : rt_source_note(f, f->notes, x->line, list.data));
out:
    rt_str_free(&list);
    return rc;
}

static int apply(rt_setting_source *f, rt_setting_entry *x, const alias *a)
{
    alias_fn fn = a->fn;
    bool lists = fn == targets || fn == names || fn == datasets || fn == no_effect || fn == off ||
                 (fn == same && rt_setting_repeats(rt_setting_table[a->id].kind));
    if (x->list && !lists) return rt_source_refuse(f, x->line, "'%s' takes one value, not a list", x->name);
    if (x->bare && fn != on_off && fn != only_loss && fn != variable && fn != off && fn != no_effect &&
        fn != all_targets)
        return rt_source_refuse(f, x->line, "%s needs a value", x->name);
    if (x->map && rt_alias_shape_of(x->alias) == RT_SHAPE_PLAIN) return RT_OK; /* refused already */
    if (x->won) return rt_source_told(f, x, "%s has no effect", x->name);
    return fn(f, x, a);
}

/* Adapters' numbers of a file that trains all parameters. */
static bool of_adapters(rt_setting_id id)
{
    return id == RT_SETTING_ID_lora_rank || id == RT_SETTING_ID_lora_alpha || id == RT_SETTING_ID_lora_dropout ||
           id == RT_SETTING_ID_lora_targets;
}

static int forget_adapters(rt_setting_source *f, const char *why)
{
    int rc = RT_OK;
    for (rt_setting_entry *x = f->first; x; x = x->next) {
        rt_setting_id id = x->id == RT_SETTING_COUNT_ALL ? table[x->alias].id : x->id;
        if (!of_adapters(id) || x->null || x->won || (x->where && f->by[id] && !f->by[id]->where)) continue;
        if (f->by[id] == x) {
            rt_settings_forget(&f->settings, id);
            f->by[id] = NULL;
        }
        rt_source_enter(f, x->where);
        RT_TRY(rt_source_told(f, x, "%s has no effect: %s, and all parameters are trained", x->name, why));
    }
out:
    return rc;
}

rt_tool rt_alias_tool(const rt_setting_entry *x)
{
    return x->id == RT_SETTING_COUNT_ALL ? table[x->alias].tool : RT_TOOL_ANY;
}

rt_setting_id rt_alias_setting(const rt_setting_entry *x)
{
    return x->id == RT_SETTING_COUNT_ALL ? table[x->alias].id : x->id;
}

int rt_alias_apply(rt_setting_source *f)
{
    int rc;
    const char *full = NULL;
    RT_TRY(rt_tool_read(f, &full));
    if (full) RT_TRY(forget_adapters(f, full));
    /* The schedule and splits last: what they set depends on what the others gave. */
    for (int last = 0; last < 2; last++)
        for (rt_setting_entry *x = f->first; x; x = x->next) {
            if (x->id != RT_SETTING_COUNT_ALL || x->null) continue;
            const alias *a = &table[x->alias];
            if ((a->fn == scheduler || a->fn == split) != (last == 1) || (full && of_adapters(a->id))) continue;
            rt_source_enter(f, x->where);
            RT_TRY(rt_source_keep(f, x->line, apply(f, x, a)));
        }
out:
    return rc;
}
