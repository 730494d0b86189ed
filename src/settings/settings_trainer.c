/* settings_trainer.c - the trainer that a file was written for: names mean different things to different ones.
 *
 * Owns: which trainer it is, what beta, temperature and lmbda mean to it, and whether it trains adapters where the file
 * does not say so. The rules of single names are settings_alias.c's. */
#include "settings/aliases.h"
#include "settings/settings_internal.h"

#include <stdlib.h>
#include <string.h>

/* What the trainers take where a file is silent, and whether the temperature is the loss's or only the sampler's. None
 * of them has cross-entropy or the factor of T^2 (TRL gkd_trainer.py, distillation_trainer.py; ms-swift gkd_loss.py).
 * Their beta is ours: the teacher's share of the mixture, 0 forward KL and 1 reverse KL. */
typedef struct trainer {
    const char *lmbda, *beta, *temperature;
    bool in_loss, last_turn; /* last_turn: of a conversation the last turn alone is trained (TRL's chat collator) */
} trainer;
static const trainer trainers[] = {
    [RT_TOOL_GKD] = { "0.5", "0.5", "0.9", false, true },
    [RT_TOOL_DISTILLATION] = { "1", "1", "1", true, false },
    [RT_TOOL_SWIFT] = { "0.5", "0.5", "0.9", true, false },
};
static const char *const tools[] = {
#define X(name, text) [RT_TOOL_##name] = (text),
    RT_ALIAS_TOOLS(X)
#undef X
};

/* By its names; *by is the one that says so. A file's names stand before those of the command line. */
static rt_tool tool_of(const rt_setting_source *f, rt_setting_entry **by)
{
    rt_tool t = RT_TOOL_ANY;
    for (int file = 1; file >= 0 && t == RT_TOOL_ANY; file--)
        for (rt_setting_entry *x = f->first; x; x = x->next)
            if ((x->where != NULL) == file && rt_alias_tool(x) > t) t = rt_alias_tool(x), *by = x;
    rt_setting_entry *teacher = rt_alias_entry(f, "teacher_model_name_or_path");
    bool ours = f->by[RT_SETTING_ID_divergence];
    if (t == RT_TOOL_ANY && teacher && !ours && (f->by[RT_SETTING_ID_beta] || f->by[RT_SETTING_ID_temperature]))
        t = RT_TOOL_GKD, *by = teacher;
    return t;
}

static void forget(rt_setting_source *f, rt_setting_id id)
{
    rt_settings_forget(&f->settings, id);
    f->by[id] = NULL;
}

/* ---- the loss ---- */

/* A divergence of ours has our beta, which is jsd's alone. */
static void own_divergence(rt_setting_source *f, rt_str *out)
{
    const rt_setting_entry *own = f->by[RT_SETTING_ID_divergence], *beta = f->by[RT_SETTING_ID_beta];
    if (!beta || strcmp(f->settings.divergence, "jsd") == 0) return;
    rt_str_printf(out, "beta %s has no effect: it is for jsd, and %s is %s; ", beta->value[0], own->name,
                  f->settings.divergence);
    if (rt_source_beaten(beta, own)) forget(f, RT_SETTING_ID_beta);
}

static int read_beta(rt_setting_source *f, rt_setting_entry *x, const trainer *t, rt_str *out)
{
    const rt_setting_entry *given = f->by[RT_SETTING_ID_beta];
    int rc = RT_OK;
    RT_TRY(rt_source_set(f, x, RT_SETTING_ID_divergence, "jsd"));
    if (!given) RT_TRY(rt_source_set(f, x, RT_SETTING_ID_beta, t->beta));
    const char *text = given ? given->value[0] : t->beta;
    rt_str_printf(out, "beta %s%s -> --divergence jsd --beta %s; ", given ? "" : "is ", text, text);
out:
    return rc;
}

static int read_temperature(rt_setting_source *f, rt_setting_entry *x, const trainer *t, rt_str *out)
{
    const rt_setting_entry *given = f->by[RT_SETTING_ID_temperature];
    const char *text = given ? given->value[0] : t->temperature;
    int rc = RT_OK;
    if (!t->in_loss && given && rt_source_beaten(x, given)) {
        rt_str_printf(out, "--temperature %s of the command line is the loss's, as always there; ", text);
        return RT_OK;
    }
    if (!t->in_loss && given) {
        forget(f, RT_SETTING_ID_temperature);
        rt_str_printf(out, "temperature %s has no effect: it is for sampling there, and the loss is at 1; ", text);
    }
    if (!t->in_loss || atof(text) == 1) return RT_OK;
    if (!given) RT_TRY(rt_source_set(f, x, RT_SETTING_ID_temperature, text));
    if (!f->by[RT_SETTING_ID_t2]) RT_TRY(rt_source_set(f, x, RT_SETTING_ID_t2, "off"));
    rt_str_printf(out, "temperature %s%s -> --temperature %s --t2 off; ", given ? "" : "is ", text, text);
out:
    return rc;
}

/* axolotl has names for templates where ours is a file; *idle is what to say of it. */
static void read_template(rt_setting_source *f, rt_tool from, const rt_setting_entry *by, const char **idle)
{
    const rt_setting_entry *x = f->by[RT_SETTING_ID_chat_template];
    *idle = "";
    if (from != RT_TOOL_AXOLOTL || !x || rt_source_beaten(by, x) || strpbrk(x->value[0], "./") ||
        strcmp(x->value[0], "student") == 0 || strcmp(x->value[0], "teacher") == 0)
        return;
    forget(f, RT_SETTING_ID_chat_template);
    *idle = "; chat_template has no effect: " RT_TEMPLATE;
}

/* lmbda, beta and temperature mean what they mean to the trainer; x is the name that says which one it is. */
static int read_as(rt_setting_source *f, rt_tool from, rt_setting_entry *x)
{
    const trainer *t = &trainers[from < sizeof trainers / sizeof *trainers ? from : RT_TOOL_ANY];
    bool distils = t->beta && (from != RT_TOOL_SWIFT || rt_alias_either(f, "teacher_model", "rlhf_type"));
    rt_str out = { 0 };
    const char *idle;
    int rc = RT_OK;
    read_template(f, from, x, &idle);
    rt_str_printf(&out, "read as %s%s", tools[from], distils ? ": " : "; ");
    if (distils && !rt_alias_entry(f, "lmbda"))
        RT_TRY(rt_source_refuse(f, x->line,
                                "'%s' says that this is %s, where lmbda is %s unless it is given: the student writes "
                                "the text itself, and that is not built here; say %s to train on the text of the data",
                                x->name, tools[from], t->lmbda, f->where ? "lmbda: 0" : "--lmbda 0"));
    if (distils && f->by[RT_SETTING_ID_divergence]) {
        own_divergence(f, &out);
    } else if (distils) {
        RT_TRY(read_beta(f, x, t, &out));
        RT_TRY(read_temperature(f, x, t, &out));
    }
    if (distils && !f->by[RT_SETTING_ID_alpha] && !f->by[RT_SETTING_ID_kd_weight] && !f->by[RT_SETTING_ID_ce_weight] &&
        !rt_alias_entry(f, "sft_alpha")) {
        RT_TRY(rt_source_set(f, x, RT_SETTING_ID_alpha, "1"));
        rt_str_append(&out, "no cross-entropy -> --alpha 1; ");
    }
    if (distils && t->last_turn)
        rt_str_append(&out, "every assistant turn is trained, there the last of a conversation alone; ");
    rt_str_printf(&out, "what %sit leaves out is as here, not as there%s", distils ? "else " : "", idle);
    RT_TRY(out.failed ? rt_no_memory(f->e, "settings") : rt_source_note(f, f->notes, 1, out.data));
out:
    rt_str_free(&out);
    return rc;
}

/* ---- adapters ---- */

/* A file's name for a number of adapters; with cmd, one of the command line, which asks for them. */
static rt_setting_entry *adapter_name(const rt_setting_source *f, bool cmd)
{
    for (rt_setting_entry *x = f->first; x; x = x->next) {
        rt_setting_id id = rt_alias_setting(x);
        bool rank = id == RT_SETTING_ID_lora_rank;
        bool number = rank || id == RT_SETTING_ID_lora_alpha || id == RT_SETTING_ID_lora_dropout ||
                      id == RT_SETTING_ID_lora_targets;
        if (!x->null && (cmd ? rank && !x->where : number && x->where)) return x;
    }
    return NULL;
}

/* The name that says whether adapters are trained, the command line's first. */
static rt_setting_entry *tuning_name(const rt_setting_source *f)
{
    static const char *const names[] = { "use_peft", "adapter", "finetuning_type", "train_type", "tuner_type" };
    rt_setting_entry *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rt_setting_entry *x = rt_alias_entry(f, names[i]);
        if (x && (!found || rt_source_beaten(found, x))) found = x;
    }
    return found;
}

static rt_setting_entry *empty_adapter(const rt_setting_source *f)
{
    uint32_t index = rt_alias_find("adapter");
    for (rt_setting_entry *x = f->first; x; x = x->next)
        if (x->id == RT_SETTING_COUNT_ALL && x->alias == index && x->null) return x;
    return NULL;
}

/* Whether a file of TRL's that nothing else marks has its name for a rank. */
static bool of_trl(const rt_setting_source *f, rt_tool from, const rt_setting_entry *by)
{
    const rt_setting_entry *rank = rt_alias_entry(f, "lora_r"), *model = rt_alias_entry(f, "model_name_or_path");
    if (from == RT_TOOL_GKD || from == RT_TOOL_DISTILLATION) return by->where;
    return from == RT_TOOL_ANY && rank && rank->where && model && model->where;
}

/* Where a file is silent: axolotl and TRL train all parameters, LLaMA-Factory and ms-swift adapters. */
static int silent_tuning(rt_setting_source *f, rt_tool from, rt_setting_entry *by, const char **full)
{
    rt_setting_entry *number = adapter_name(f, false), *own = f->by[RT_SETTING_ID_lora_rank];
    bool adapters = from == RT_TOOL_FACTORY || from == RT_TOOL_SWIFT;
    if (!adapters && (own || !number)) return RT_OK; /* a rank by our name asks for adapters */
    if (!adapters && rt_alias_either(f, "peft_config", "lora_config")) return RT_OK;
    if (from == RT_TOOL_AXOLOTL && by->where) *full = "an axolotl file without adapter has none";
    if (of_trl(f, from, by)) *full = "TRL has adapters with use_peft: true alone";
    if (!adapters || (!number && (!by->where || f->by[RT_SETTING_ID_student]))) return RT_OK;
    rt_source_enter(f, by->where);
    int rc = rt_source_set(f, by, RT_SETTING_ID_lora, "on");
    return rc < 0 ? rc
                  : rt_source_note(f, f->notes, 1,
                                   from == RT_TOOL_FACTORY
                                       ? "no finetuning_type, and LLaMA-Factory's is lora -> --lora"
                                       : "no train_type or tuner_type, and ms-swift's is lora -> --lora");
}

static int read_tuning(rt_setting_source *f, rt_tool from, rt_setting_entry *by, const char **full)
{
    rt_setting_entry *said = tuning_name(f), *rank = adapter_name(f, true), *empty = empty_adapter(f);
    if (f->by[RT_SETTING_ID_lora]) return RT_OK; /* ours */
    if (rank && !(said && !said->where)) {
        if (said) said->won = rank->name;
        return RT_OK;
    }
    if (said) {
        const char *text = said->count ? said->value[0] : "";
        bool off = rt_setting_switch(text) == 0;
        if (!off && strcmp(text, "full") != 0) return RT_OK;
        *full = rt_arena_printf(f->arena, "%s is %s", said->name, off ? "off" : "full");
        return *full ? RT_OK : rt_no_memory(f->e, "settings");
    }
    if (!empty) return silent_tuning(f, from, by, full);
    *full = "adapter has no value";
    rt_source_enter(f, empty->where);
    return rt_source_told(f, empty, "adapter without a value -> all parameters are trained");
}

int rt_tool_read(rt_setting_source *f, const char **full)
{
    int rc = RT_OK;
    rt_setting_entry *by = f->first;
    rt_tool from = tool_of(f, &by);
    *full = NULL;
    if (!by) return RT_OK;
    rt_source_enter(f, by->where);
    if (from != RT_TOOL_ANY) RT_TRY(rt_source_keep(f, by->line, read_as(f, from, by)));
    RT_TRY(read_tuning(f, from, by, full));
out:
    return rc;
}
