/* api_settings.c - settings by name, from YAML and as YAML; the table that settings/settings.h owns. */
#include "api/api_internal.h"

#include "settings/settings.h"

int retort_settings_new(retort_settings **out, retort_error *error)
{
    rt_err e = { 0 };
    retort_settings *s = out ? rt_alloc_zero(sizeof *s, 16) : NULL;
    int rc = !out ? rt_fail(&e, RT_USAGE, "retort_settings_new: out is needed")
             : !s ? rt_no_memory(&e, "settings")
                  : RT_OK;
    if (rc == RT_OK) *out = s;
    return rt_api_end(rc, &e, error);
}

void retort_settings_free(retort_settings *s)
{
    if (!s) return;
    rt_arena_free(&s->arena);
    rt_free(s);
}

int retort_settings_set(retort_settings *s, const char *name, const char *value, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    if (!s || !name || !value) RT_TRY(rt_fail(&e, RT_USAGE, "retort_settings_set: a name and a value are needed"));
    rt_setting_id id = rt_setting_find(name);
    if (id == RT_SETTING_COUNT_ALL) RT_TRY(rt_setting_unknown(name, RT_USAGE, &e));
    const char *copy = rt_arena_strdup(&s->arena, value);
    if (!copy) RT_TRY(rt_no_memory(&e, name));
    RT_TRY(rt_settings_set(&s->settings, id, copy, &e));
out:
    return rt_api_end(rc, &e, error);
}

int retort_settings_set_yaml(retort_settings *s, const char *text, size_t len, const char *where, char **mapping,
                             retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_str lines = { 0 };
    rt_settings next;
    rt_settings_notes used;
    if (!s || !text) RT_TRY(rt_fail(&e, RT_USAGE, "retort_settings_set_yaml: settings and a text are needed"));
    next = s->settings; /* all or nothing */
    RT_TRY(rt_settings_from_yaml(&next, text, len, where ? where : "settings", &s->arena, &used, &e));
    for (uint32_t i = 0; i < used.count; i++) rt_str_printf(&lines, "%s\n", used.items[i].text);
    if (mapping) RT_TRY(rt_api_give(&lines, mapping, &e));
    s->settings = next;
out:
    rt_str_free(&lines);
    return rt_api_end(rc, &e, error);
}

int retort_settings_yaml(const retort_settings *s, char **text, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_str out = { 0 };
    if (!s || !text)
        RT_TRY(rt_fail(&e, RT_USAGE, "retort_settings_yaml: settings and a place for the text are needed"));
    RT_TRY(rt_settings_to_yaml(&s->settings, &out, &e));
    RT_TRY(rt_api_give(&out, text, &e));
out:
    rt_str_free(&out);
    return rt_api_end(rc, &e, error);
}

int retort_setting_describe(uint32_t index, retort_setting_facts *out, retort_error *error)
{
    static const char *const types[] = {
        [RT_SETTING_TEXT] = "text",   [RT_SETTING_LIST] = "list",  [RT_SETTING_REAL] = "real",
        [RT_SETTING_COUNT] = "count", [RT_SETTING_SHARE] = "text", [RT_SETTING_SWITCH] = "switch",
        [RT_SETTING_TEXTS] = "list"
    };
    int rc;
    rt_err e = { 0 };
    if (index >= RT_SETTING_COUNT_ALL) RT_TRY(rt_fail(&e, RT_NOT_FOUND, "there are %d settings", RT_SETTING_COUNT_ALL));
    const rt_setting_info *f = &rt_setting_table[index];
    retort_setting_facts facts = { .name = f->field, .type = types[f->kind], .initial = f->def, .help = f->help };
    RT_TRY(rt_api_fill(out, &facts, sizeof facts, "retort_setting_facts", &e));
out:
    return rt_api_end(rc, &e, error);
}
