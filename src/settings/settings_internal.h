/* settings_internal.h - what the files of this room share: numbers as text (settings.c), an open YAML file
 * (settings_yaml.c) and other tools' names in it (settings_alias.c). */
#ifndef RT_SETTINGS_SETTINGS_INTERNAL_H
#define RT_SETTINGS_SETTINGS_INTERNAL_H

#include "settings/settings.h"

/* ---- settings.c ---- */
enum { RT_SETTING_DIGITS = 40 };
/* Into buf (RT_SETTING_DIGITS), which is returned: the fewest digits, from six on, that read back the same. */
const char *rt_setting_digits(char *buf, double v);
const char *rt_share_text(char *buf, rt_share s); /* "12", "5%" */
void rt_settings_put_share(rt_settings *s, rt_setting_id id, rt_share v);

/* ---- settings_yaml.c ---- */

/* A name of the file with its values. */
typedef struct rt_yaml_entry {
    const char *name; /* as the file has it */
    uint32_t line;
    rt_setting_id id;                    /* RT_SETTING_COUNT_ALL: an alias */
    uint32_t alias;                      /* its index */
    bool list;                           /* in brackets or with dashes */
    bool null;                           /* says nothing */
    const char *value[RT_SETTING_WORDS]; /* terminated */
    uint32_t count;
    struct rt_yaml_entry *next;
} rt_yaml_entry;

typedef struct rt_yaml_file {
    const char *where;
    rt_arena *arena;
    rt_settings settings;
    rt_yaml_entry *first, *last;
    const rt_yaml_entry *by[RT_SETTING_COUNT_ALL]; /* which entry gave a setting */
    rt_settings_aliases *used;                     /* null: nobody asks */
    rt_err *e;
} rt_yaml_file;

/* RT_INVALID with file and line before the message. */
int rt_yaml_refuse(const rt_yaml_file *f, uint32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* An entry is about to give a setting; refused when another one has. */
int rt_yaml_claim(rt_yaml_file *f, const rt_yaml_entry *x, rt_setting_id id);
/* The same, and gives it. */
int rt_yaml_set(rt_yaml_file *f, const rt_yaml_entry *x, rt_setting_id id, const char *text);

/* ---- settings_alias.c ---- */
enum { RT_ALIAS_NONE = UINT32_MAX };
/* The index of an alias by name, with _ or -. */
uint32_t rt_alias_find(const char *name);
/* All aliases of the file, after its own names. */
int rt_alias_apply(rt_yaml_file *f);

#endif
