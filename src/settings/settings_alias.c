/* settings_alias.c - the names that users of TRL and Hugging Face's Trainer know, and what they are here.
 *
 * Owns: the table of names and the rules that make a value of theirs one of ours. A name that asks for something that
 * does not exist here is refused with the reason; one that has no effect here is accepted, and the caller is told. */
#include "settings/settings_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct alias alias;
typedef int (*alias_fn)(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a);
struct alias {
    const char *name;
    alias_fn fn;
    rt_setting_id id;
    const char *yes, *no; /* of a switch: what it means; of the others: see the rule */
};

/* ---- telling ---- */

/* One line of the mapping, in the order of the file. */
static int told(rt_yaml_file *f, const rt_yaml_entry *x, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int told(rt_yaml_file *f, const rt_yaml_entry *x, const char *format, ...)
{
    char text[400];
    va_list args;
    rt_settings_aliases *u = f->used;
    if (!u || u->count == RT_SETTINGS_ALIASES) return RT_OK;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = rt_arena_strdup(f->arena, text);
    if (!copy) return rt_no_memory(f->e, f->where);
    uint32_t at = u->count++;
    for (; at > 0 && u->items[at - 1].line > x->line; at--) u->items[at] = u->items[at - 1];
    u->items[at] = (rt_settings_alias){ x->line, copy };
    return RT_OK;
}

static int set_and_tell(rt_yaml_file *f, const rt_yaml_entry *x, rt_setting_id id, const char *text)
{
    int rc = rt_yaml_set(f, x, id, text);
    return rc < 0 ? rc : told(f, x, "%s -> %s %s", x->name, rt_setting_table[id].flag, text);
}

static const rt_yaml_entry *entry_of(const rt_yaml_file *f, const char *name)
{
    uint32_t index = rt_alias_find(name);
    for (const rt_yaml_entry *x = f->first; x; x = x->next)
        if (x->id == RT_SETTING_COUNT_ALL && x->alias == index && !x->null) return x;
    return NULL;
}

static int number(rt_yaml_file *f, const rt_yaml_entry *x, double *out)
{
    char *end;
    *out = strtod(x->value[0], &end);
    if (*end || end == x->value[0] || !isfinite(*out))
        return rt_yaml_refuse(f, x->line, "'%s' takes a number, not '%.80s'", x->name, x->value[0]);
    return RT_OK;
}

/* ---- rules ---- */

/* The same value under another name. */
static int same(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < x->count; i++) RT_TRY(set_and_tell(f, x, a->id, x->value[i]));
out:
    return rc;
}

static int on_off(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    int yes = rt_setting_switch(x->value[0]);
    if (yes < 0) return rt_yaml_refuse(f, x->line, "'%s' is true or false, not '%.80s'", x->name, x->value[0]);
    const char *text = yes ? a->yes : a->no;
    int rc = rt_yaml_set(f, x, a->id, text);
    return rc < 0 ? rc : told(f, x, "%s %s -> %s %s", x->name, x->value[0], rt_setting_table[a->id].flag, text);
}

/* Theirs has no effect here; yes says why. */
static int no_effect(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    return told(f, x, "%s -> no setting: %s", x->name, a->yes);
}

/* Only the value that asks for nothing is possible: 0, false, none; yes says what the name is. */
static int must_be_off(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    char *end;
    double v = strtod(x->value[0], &end);
    if (rt_setting_switch(x->value[0]) == 0 || (end != x->value[0] && !*end && v == 0))
        return told(f, x, "%s %s -> no setting: nothing to do", x->name, x->value[0]);
    return rt_yaml_refuse(f, x->line, "'%s' %s; leave it out, or set it to %s", x->name, a->yes, a->no);
}

static int optimizer(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    (void)a;
    if (strncmp(x->value[0], "adamw", 5) == 0)
        return told(f, x, "%s %s -> no setting: AdamW it is, with moments in f32", x->name, x->value[0]);
    return rt_yaml_refuse(f, x->line, "'%s' asks for '%.40s', and the optimizer is AdamW; leave it out", x->name,
                          x->value[0]);
}

/* Without a positive number theirs is off. */
static int most_steps(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    double v;
    int rc = number(f, x, &v);
    if (rc < 0) return rc;
    if (v <= 0) return told(f, x, "%s %s -> no setting: off", x->name, x->value[0]);
    return same(f, x, a);
}

/* A share below 1 is one of the whole run. */
static int put_share(rt_yaml_file *f, const rt_yaml_entry *x, rt_setting_id id, double share)
{
    char text[RT_SETTING_DIGITS];
    /* of a hundred, without the digits that 100 * 0.07 has too many */
    rt_share v = { .value = floor(share * 1e12 + 0.5) / 1e10, .percent = true };
    int rc = rt_yaml_claim(f, x, id);
    if (rc < 0) return rc;
    rt_settings_put_share(&f->settings, id, v);
    return told(f, x, "%s %s -> %s %s", x->name, x->value[0], rt_setting_table[id].flag, rt_share_text(text, v));
}

static int interval(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    double v;
    int rc = number(f, x, &v);
    if (rc < 0) return rc;
    if (v <= 0 || (v > 1 && v != floor(v)))
        return rt_yaml_refuse(f, x->line, "'%s' is a number of steps, or a share of the run below 1; not '%.40s'",
                              x->name, x->value[0]);
    return v < 1 ? put_share(f, x, a->id, v) : same(f, x, a);
}

/* warmup_ratio and warmup_steps: whichever is 0 leaves it to the other. */
static int warmup(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    double v, w;
    const rt_yaml_entry *other = entry_of(f, a->yes);
    int rc = number(f, x, &v);
    if (rc >= 0 && v == 0 && other) rc = number(f, other, &w);
    if (rc < 0) return rc;
    if (v == 0 && other && (w != 0 || other->line < x->line))
        return told(f, x, "%s %s -> no setting: %s decides", x->name, x->value[0], other->name);
    if (v == 0) {
        rc = rt_yaml_set(f, x, a->id, "0");
        return rc < 0 ? rc : told(f, x, "%s %s -> --warmup 0", x->name, x->value[0]);
    }
    if (v < 0 || (strcmp(a->name, "warmup_ratio") == 0 && v > 1) || (v > 1 && v != floor(v)))
        return rt_yaml_refuse(f, x->line, "'%s' is %s, not '%.40s'", x->name, a->no, x->value[0]);
    return v < 1 || strcmp(a->name, "warmup_ratio") == 0 ? put_share(f, x, a->id, v) : same(f, x, a);
}

/* per_device_train_batch_size x gradient_accumulation_steps */
static int batch(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    const rt_yaml_entry *rows = entry_of(f, "per_device_train_batch_size"),
                        *times = entry_of(f, "gradient_accumulation_steps");
    uint64_t value[2], product;
    (void)a;
    if (!rows || !times)
        return rt_yaml_refuse(f, x->line,
                              "per_device_train_batch_size and gradient_accumulation_steps go together: their product "
                              "is --batch; give both, or batch and micro_batch");
    if (x != rows) return RT_OK; /* done once, for both */
    for (int i = 0; i < 2; i++) {
        const rt_yaml_entry *y = i ? times : rows;
        char *end;
        errno = 0;
        value[i] = strtoull(y->value[0], &end, 10);
        if (errno || *end || y->value[0][0] < '1' || y->value[0][0] > '9')
            return rt_yaml_refuse(f, y->line, "'%s' takes a whole number from 1, not '%.40s'", y->name, y->value[0]);
    }
    if (!rt_mul_u64(value[0], value[1], &product))
        return rt_yaml_refuse(f, x->line, "'%s' times '%s' is too large", rows->name, times->name);
    int rc = rt_yaml_claim(f, x, RT_SETTING_ID_micro_batch);
    if (rc >= 0) rc = rt_yaml_claim(f, x, RT_SETTING_ID_batch);
    if (rc < 0) return rc;
    RT_SETTINGS_PUT(&f->settings, micro_batch, value[0]);
    RT_SETTINGS_PUT(&f->settings, batch, product);
    return told(f, x, "%s %s, %s %s -> --micro-batch %s --batch %" PRIu64, rows->name, rows->value[0], times->name,
                times->value[0], rows->value[0], product);
}

/* One of the two may be missing: then it is what theirs is. */
static int adam_betas(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    const rt_yaml_entry *one = entry_of(f, "adam_beta1"), *two = entry_of(f, "adam_beta2");
    const char *b1 = one ? one->value[0] : "0.9", *b2 = two ? two->value[0] : "0.999";
    double v;
    int rc = number(f, x, &v);
    if (rc < 0 || (one && two && x == two)) return rc;
    const char *text = rt_arena_printf(f->arena, "%s,%s", b1, b2);
    if (!text) return rt_no_memory(f->e, f->where);
    rc = rt_yaml_set(f, x, a->id, text);
    if (rc < 0) return rc;
    if (one && two) return told(f, x, "%s %s, %s %s -> --betas %s", one->name, b1, two->name, b2, text);
    return told(f, x, "%s %s -> --betas %s (the other as in transformers)", x->name, x->value[0], text);
}

/* q_proj, k_proj ... as a list, with commas, or one; all-linear. */
static int targets(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
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
                RT_TRY(rt_yaml_refuse(f, x->line,
                                      "'%s' has '%.*s'; adapters go on q_proj, k_proj, v_proj, o_proj, gate_proj, "
                                      "up_proj and down_proj",
                                      x->name, n > 40 ? 40 : (int)n, p));
            if (n) rt_str_printf(&list, "%s%s", list.len ? "," : "", parts[k]);
            p += n + (p[n] != 0);
        }
    const char *text = list.failed ? NULL : rt_arena_strdup(f->arena, list.data ? list.data : "");
    if (!text) RT_TRY(rt_no_memory(f->e, f->where));
    RT_TRY(set_and_tell(f, x, a->id, text));
out:
    rt_str_free(&list);
    return rc;
}

/* Theirs end at 0 and `constant` has no warm-up; both are part of what the name means, unless the file says more. */
static int scheduler(rt_yaml_file *f, const rt_yaml_entry *x, const alias *a)
{
    static const char *const names[] = {
        "cosine", "linear", "constant", "constant_with_warmup", "cosine_with_min_lr", "warmup_stable_decay", NULL
    };
    static const char *const ours[] = { "cosine", "linear", "constant", "constant", "cosine", "wsd" };
    int k = 0, rc;
    while (names[k] && strcmp(names[k], x->value[0]) != 0) k++;
    if (!names[k])
        return rt_yaml_refuse(f, x->line,
                              "'%s' is cosine, linear, constant, constant_with_warmup, cosine_with_min_lr or "
                              "warmup_stable_decay, not '%.40s'",
                              x->name, x->value[0]);
    bool floor_given = f->by[RT_SETTING_ID_lr_floor], still = strcmp(names[k], "constant") == 0;
    const rt_yaml_entry *warm = f->by[RT_SETTING_ID_warmup];
    if (strcmp(names[k], "cosine_with_min_lr") == 0 && !floor_given)
        return rt_yaml_refuse(f, x->line,
                              "'cosine_with_min_lr' needs min_lr_rate: 0.1 or the like, the share of the "
                              "rate at which it ends, as a name of its own");
    if (still && warm && f->settings.warmup.value != 0)
        return rt_yaml_refuse(f, x->line,
                              "'constant' has no warm-up, and '%s' of line %u asks for one; say constant_with_warmup",
                              warm->name, warm->line);
    bool to_zero = !floor_given && strcmp(ours[k], "constant") != 0, cold = still && !warm;
    RT_TRY(rt_yaml_set(f, x, a->id, ours[k]));
    if (to_zero) RT_TRY(rt_yaml_set(f, x, RT_SETTING_ID_lr_floor, "0"));
    if (cold) RT_TRY(rt_yaml_set(f, x, RT_SETTING_ID_warmup, "0"));
    RT_TRY(told(f, x, "%s %s -> --schedule %s%s%s", x->name, x->value[0], ours[k], to_zero ? " --lr-floor 0" : "",
                cold ? " --warmup 0" : ""));
out:
    return rc;
}

/* ---- the table ---- */

#define ON_POLICY "is for text that the student writes itself, and that is not built here"
#define PRECISION "the device has its own precision; save_dtype is what is written"
#define ID(name) RT_SETTING_ID_##name
#define NO_ID RT_SETTING_COUNT_ALL

static const alias table[] = {
    { "model_name_or_path", same, ID(student), NULL, NULL },
    { "teacher_model_name_or_path", same, ID(teacher), NULL, NULL },
    { "dataset_name", same, ID(data), NULL, NULL },
    { "train_file", same, ID(data), NULL, NULL },
    { "validation_file", same, ID(eval_data), NULL, NULL },
    { "output_dir", same, ID(out), NULL, NULL },
    { "learning_rate", same, ID(lr), NULL, NULL },
    { "lr_scheduler_type", scheduler, ID(schedule), NULL, NULL },
    { "min_lr_rate", same, ID(lr_floor), NULL, NULL },
    { "num_decay_steps", same, ID(decay), NULL, NULL },
    { "warmup_ratio", warmup, ID(warmup), "warmup_steps", "a share from 0 to 1" },
    { "warmup_steps", warmup, ID(warmup), "warmup_ratio", "a number of steps, or a share below 1" },
    { "adam_beta1", adam_betas, ID(betas), NULL, NULL },
    { "adam_beta2", adam_betas, ID(betas), NULL, NULL },
    { "adam_epsilon", same, ID(eps), NULL, NULL },
    { "per_device_train_batch_size", batch, NO_ID, NULL, NULL },
    { "gradient_accumulation_steps", batch, NO_ID, NULL, NULL },
    { "num_train_epochs", same, ID(epochs), NULL, NULL },
    { "max_steps", most_steps, ID(steps), NULL, NULL },
    { "max_length", same, ID(seq_len), NULL, NULL },
    { "max_seq_length", same, ID(seq_len), NULL, NULL },
    { "max_seq_len", same, ID(seq_len), NULL, NULL },
    { "save_steps", interval, ID(save_every), NULL, NULL },
    { "eval_steps", interval, ID(eval_every), NULL, NULL },
    { "save_total_limit", same, ID(keep), NULL, NULL },
    { "load_best_model_at_end", on_off, ID(save), "best", "last" },
    { "gradient_checkpointing", on_off, ID(recompute), "block", "none" },
    { "assistant_only_loss", on_off, ID(loss_on), "turns", "all" },
    { "completion_only_loss", on_off, ID(loss_on), "turns", "all" },
    { "use_peft", on_off, ID(lora), "on", "off" },
    { "lora_r", same, ID(lora_rank), NULL, NULL },
    { "target_modules", targets, ID(lora_targets), NULL, NULL },
    { "lora_target_modules", targets, ID(lora_targets), NULL, NULL },
    { "lora_dropout", must_be_off, NO_ID, "is not built: adapters have no dropout", "0" },
    { "lmbda", must_be_off, NO_ID, ON_POLICY, "0" },
    { "seq_kd", must_be_off, NO_ID, "is for text that the teacher writes, and that is not built here", "false" },
    { "optim", optimizer, NO_ID, NULL, NULL },
    { "bf16", no_effect, NO_ID, PRECISION, NULL },
    { "fp16", no_effect, NO_ID, PRECISION, NULL },
    { "torch_dtype", no_effect, NO_ID, PRECISION, NULL },
    { "logging_steps", no_effect, NO_ID, "every step is in run/metrics.jsonl", NULL },
    { "report_to", no_effect, NO_ID, "what is reported is always written to the run", NULL },
};
enum { ALIASES = sizeof table / sizeof *table };
_Static_assert((int)ALIASES <= (int)RT_SETTINGS_ALIASES, "a file may use every alias");

const char *rt_settings_alias_name(uint32_t i) { return i < ALIASES ? table[i].name : NULL; }

uint32_t rt_alias_find(const char *name)
{
    for (uint32_t i = 0; i < ALIASES; i++) {
        const char *a = table[i].name, *b = name;
        while (*a && (*a == *b || (*a == '_' && *b == '-'))) a++, b++;
        if (!*a && !*b) return i;
    }
    return RT_ALIAS_NONE;
}

int rt_alias_apply(rt_yaml_file *f)
{
    int rc = RT_OK;
    /* The schedule last: what it sets besides depends on what the others gave. */
    for (int last = 0; last < 2; last++)
        for (const rt_yaml_entry *x = f->first; x; x = x->next) {
            if (x->id != RT_SETTING_COUNT_ALL || x->null) continue;
            const alias *a = &table[x->alias];
            if ((a->fn == scheduler) != (last == 1)) continue;
            bool lists = a->fn == targets || a->fn == no_effect ||
                         (a->fn == same && rt_setting_table[a->id].kind == RT_SETTING_LIST);
            if (x->list && !lists) RT_TRY(rt_yaml_refuse(f, x->line, "'%s' takes one value, not a list", x->name));
            RT_TRY(a->fn(f, x, a));
        }
out:
    return rc;
}
