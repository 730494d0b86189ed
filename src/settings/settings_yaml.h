/* settings_yaml.h - settings as a YAML file that a person writes (`--config run.yaml`) and that a run leaves behind
 * (`resolved.yaml`).
 *
 * Owns: the part of YAML that settings need (one map of names to values and lists of values), the names of TRL and
 * Hugging Face that are understood, and the file that is written. What a value may be is settings.h's. */
#ifndef RT_SETTINGS_SETTINGS_YAML_H
#define RT_SETTINGS_SETTINGS_YAML_H

#include "settings/settings.h"

enum { RT_YAML_BYTES = 1 << 20, RT_SETTINGS_ALIASES = 64 };

/* What other tools' names were taken for, in the order of the file. */
typedef struct rt_settings_alias {
    uint32_t line;
    const char *text; /* "learning_rate -> --lr 5e-05", in the arena */
} rt_settings_alias;
typedef struct rt_settings_aliases {
    rt_settings_alias items[RT_SETTINGS_ALIASES];
    uint32_t count;
} rt_settings_aliases;

/* text: a file called where, at most RT_YAML_BYTES long. Names are those of the flags, with _ or -, or aliases; used
 * (may be null) says what was made of those. null, ~ and an empty list leave a setting alone. What the file gives is
 * put over s; strings live in a. Nothing is changed on failure. RT_FORMAT: not YAML; RT_INVALID: not settings. Messages
 * begin with "where:line". */
int rt_settings_from_yaml(rt_settings *s, const char *text, size_t len, const char *where, rt_arena *a,
                          rt_settings_aliases *used, rt_err *e);
/* The same of a file. */
int rt_settings_from_yaml_file(rt_settings *s, const char *path, rt_arena *a, rt_settings_aliases *used, rt_err *e);

/* Appends every given setting in the order of the table, each with what it means. rt_settings_from_yaml reads the same
 * settings from it. RT_INVALID for text that is not UTF-8. */
int rt_settings_to_yaml(const rt_settings *s, rt_str *out, rt_err *e);

/* The names of other tools, one by one; null behind the last. */
const char *rt_settings_alias_name(uint32_t i);

#endif
