/* settings_yaml_write.c - the settings of a run as YAML: grouped, each with what it means.
 *
 * Owns: the layout and the quoting. What is written is read back by settings_yaml.c to the same settings; a reader of
 * YAML 1.1 that guesses types (PyYAML) sees numbers as numbers and words as words. */
#include "settings/settings_internal.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

typedef struct group {
    rt_setting_id first;
    const char *title;
} group;

/* Each reaches to the next. */
static const group groups[] = {
    { RT_SETTING_ID_teacher, "models, data, output" },
    { RT_SETTING_ID_divergence, "loss" },
    { RT_SETTING_ID_lr, "optimizer and schedule" },
    { RT_SETTING_ID_batch, "batch and length" },
    { RT_SETTING_ID_lora, "what is trained" },
    { RT_SETTING_ID_recompute, "memory" },
    { RT_SETTING_ID_loss_on, "text" },
    { RT_SETTING_ID_held_out, "evaluation and saving" },
    { RT_SETTING_ID_seed, "the run" },
};

/* ---- quoting ---- */

/* Letters, digits and a few signs that mean nothing to YAML inside a word; and not a word that means something. */
static bool plain(const char *text)
{
    static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "y", "n", "null" };
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./";
    if (!*text || !strchr(first, *text)) return false;
    for (const char *p = text; *p; p++)
        if (!strchr(first, *p) && !strchr("%-+=,@~", *p)) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return false;
    return true;
}

/* What YAML lets stand in a line as it is. */
static bool printable(int32_t c)
{
    if (c == '"' || c == '\\' || c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;
    return c != 0x2028 && c != 0x2029 && c != 0xfeff && c != 0xfffe && c != 0xffff;
}

static int quote(const char *text, const char *name, rt_str *out, rt_err *e)
{
    if (plain(text)) return rt_str_append(out, text), RT_OK;
    rt_str_append(out, "\"");
    for (const char *p = text; *p;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)p, -1, &c);
        if (n <= 0)
            return rt_fail(e, RT_INVALID,
                           "%s is not UTF-8, and a settings file can hold nothing else: use another name", name);
        if (printable(c))
            rt_str_append_n(out, p, (size_t)n);
        else if (c == '"' || c == '\\')
            rt_str_printf(out, "\\%c", (char)c);
        else
            rt_str_printf(out, "\\u%04" PRIX32, (uint32_t)c);
        p += n;
    }
    rt_str_append(out, "\"");
    return RT_OK;
}

/* With the point that YAML 1.1 wants in a number with an exponent. */
static void real(double v, rt_str *out)
{
    char buf[RT_SETTING_DIGITS];
    const char *text = rt_setting_digits(buf, v), *exponent = strchr(text, 'e');
    if (exponent && !strchr(text, '.'))
        rt_str_printf(out, "%.*s.0%s", (int)(exponent - text), text, exponent);
    else
        rt_str_append(out, text);
}

/* ---- settings ---- */

static int put_list(const rt_setting_info *f, const rt_setting_list *list, rt_str *out, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < list->count; i++) {
        rt_str_append(out, "\n  - ");
        RT_TRY(quote(list->text[i], f->flag, out, e));
    }
out:
    return rc;
}

static int put_value(const rt_setting_info *f, const void *v, rt_str *out, rt_err *e)
{
    char buf[RT_SETTING_DIGITS];
    switch (f->kind) {
    case RT_SETTING_TEXT: return quote(*(const char *const *)v, f->flag, out, e);
    case RT_SETTING_REAL: real(*(const double *)v, out); break;
    case RT_SETTING_COUNT: rt_str_printf(out, "%" PRIu64, *(const uint64_t *)v); break;
    case RT_SETTING_SHARE: rt_str_append(out, rt_share_text(buf, *(const rt_share *)v)); break;
    case RT_SETTING_SWITCH: rt_str_append(out, *(const bool *)v ? "true" : "false"); break;
    case RT_SETTING_TEXTS: return quote(((const rt_setting_list *)v)->text[0], f->flag, out, e);
    case RT_SETTING_LIST: break;
    }
    return RT_OK;
}

static int put_setting(const rt_settings *s, int id, rt_str *out, rt_err *e)
{
    const rt_setting_info *f = &rt_setting_table[id];
    const void *v = (const char *)s + f->offset;
    int rc;
    rt_str_printf(out, "%s:", f->field);
    const rt_setting_list *list = v;
    if (f->kind == RT_SETTING_LIST || (f->kind == RT_SETTING_TEXTS && list->count > 1)) {
        rt_str_printf(out, "  # %s", f->help);
        RT_TRY(put_list(f, v, out, e));
    } else {
        rt_str_append(out, " ");
        RT_TRY(put_value(f, v, out, e));
        rt_str_printf(out, "  # %s", f->help);
    }
    rt_str_append(out, "\n");
out:
    return rc;
}

int rt_settings_to_yaml(const rt_settings *s, rt_str *out, rt_err *e)
{
    int rc = RT_OK;
    enum { GROUPS = sizeof groups / sizeof *groups };
    for (int g = 0; g < GROUPS; g++) {
        int end = g + 1 < GROUPS ? (int)groups[g + 1].first : RT_SETTING_COUNT_ALL;
        bool any = false;
        for (int i = groups[g].first; i < end; i++) {
            const rt_setting_list *list = (const void *)((const char *)s + rt_setting_table[i].offset);
            if (!s->given[i] || (rt_setting_repeats(rt_setting_table[i].kind) && list->count == 0)) continue;
            if (!any) rt_str_printf(out, "%s# ---- %s ----\n", out->len ? "\n" : "", groups[g].title);
            any = true;
            RT_TRY(put_setting(s, i, out, e));
        }
    }
    if (out->failed) RT_TRY(rt_no_memory(e, "the settings as YAML"));
out:
    return rc;
}
