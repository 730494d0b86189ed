/* settings_internal.h - what the files of this room share: numbers as text (settings.c), settings by name from a file
 * or a command line (settings_source.c), and other tools' names among them (settings_alias.c). */
#ifndef RT_SETTINGS_SETTINGS_INTERNAL_H
#define RT_SETTINGS_SETTINGS_INTERNAL_H

#include "settings/aliases.h"
#include "settings/settings.h"

/* ---- settings.c ---- */
enum { RT_SETTING_DIGITS = 40 };
/* Into buf (RT_SETTING_DIGITS), which is returned: the fewest digits, from six on, that read back the same. */
const char *rt_setting_digits(char *buf, double v);
const char *rt_share_text(char *buf, rt_share s); /* "12", "5%" */
void rt_settings_put_share(rt_settings *s, rt_setting_id id, rt_share v);
/* Whether two settings say the same in other words, so that one put over takes the other's place. */
bool rt_setting_rival(rt_setting_id over, rt_setting_id base);

/* ---- settings_source.c ---- */

/* A name with its values. */
typedef struct rt_setting_entry {
    const char *name;  /* as it was given */
    const char *where; /* the file that has it; null: the command line */
    const char *won;   /* the name on the command line that is taken instead, where there is one */
    uint32_t line;
    rt_setting_id id;                    /* RT_SETTING_COUNT_ALL: an alias */
    uint32_t alias;                      /* its index */
    bool list;                           /* in brackets or with dashes */
    bool null;                           /* says nothing */
    bool bare;                           /* a flag without a value: yes */
    bool map;                            /* a map, whose names were read or skipped */
    const char *value[RT_SETTING_WORDS]; /* terminated */
    uint32_t count;
    struct rt_setting_entry *next;
} rt_setting_entry;

/* A command line, a file, or both as one, with the command line's entries first: it wins. */
typedef struct rt_setting_source {
    const char *where; /* of the entry that is being read; null: the command line */
    rt_arena *arena;
    rt_settings settings;
    rt_setting_entry *first, *last;
    rt_setting_entry *by[RT_SETTING_COUNT_ALL]; /* which entry gave a setting */
    rt_settings_notes *notes, *faults;          /* of where; see rt_source_enter */
    rt_settings_notes told[2], wrong[2];        /* of the command line, of the file */
    bool strict;         /* values that no run can have are faults of the file, and not only of the run */
    bool yields;         /* what was claimed last is the command line's: the file's value is looked at and not taken */
    const char *columns; /* --columns of the entries of a list of data so far; null: there was none */
    rt_err *e;
} rt_setting_source;

/* What comes now is of a file, or with null of the command line. */
void rt_source_enter(rt_setting_source *f, const char *where);
/* Whether x is of the file and y of the command line, which wins. */
bool rt_source_beaten(const rt_setting_entry *x, const rt_setting_entry *y);
/* A new entry at the end. A name that is not known is kept as a fault, and *out null. */
int rt_source_add(rt_setting_source *f, const char *name, uint32_t line, rt_setting_entry **out);
/* The status of what cannot be taken, with file and line before the message. */
int rt_source_refuse(const rt_setting_source *f, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* rc of an entry: what was refused is kept, so that the others are read too. */
int rt_source_keep(rt_setting_source *f, uint32_t line, int rc);
/* Into notes by line. */
int rt_source_note(rt_setting_source *f, rt_settings_notes *to, uint32_t line, const char *text);
/* An entry is about to give a setting; refused when another one of the same place has. A file's yields to the command
 * line's, also to a setting that says the same in other words. */
int rt_source_claim(rt_setting_source *f, rt_setting_entry *x, rt_setting_id id);
/* The same, and gives it. */
int rt_source_set(rt_setting_source *f, rt_setting_entry *x, rt_setting_id id, const char *text);
/* All entries, when there are no more, over s. */
int rt_source_apply(rt_setting_source *f, rt_settings *s);
/* Notes, or faults where there are some: of the command line, of the file. */
void rt_source_report(const rt_setting_source *f, rt_settings_notes *words, rt_settings_notes *file);

/* ---- settings_range.c ---- */
/* A whole number as another tool writes it, "100.0" or "1e2", as "100"; other text as it is. Null: no memory. */
const char *rt_setting_whole(rt_arena *a, const char *text);
/* Every setting that the file gave is looked at, and what is out of range is kept as a fault. */
int rt_source_check_ranges(rt_setting_source *f);

/* ---- settings_yaml.c ---- */
/* Adds the entries of a map that is one text, {"min_lr_rate": 0.1}, as if they were on that line. */
int rt_source_inside(rt_setting_source *f, const char *text, uint32_t line);
/* Adds the entries of a file. */
int rt_source_yaml(rt_setting_source *f, const char *text, size_t len, const char *where);

/* ---- settings_datasets.c: an entry of a list of data ---- */
enum { RT_DATASET_IDLE = 48, RT_DATASET_COLUMNS = 8, RT_DATASET_VALUES = 16 };
/* One name of an entry: words, or a map of words. */
typedef struct rt_dataset_value {
    const char *key;
    uint32_t line;
    bool map;
    const char *text[RT_DATASET_VALUES], *name[RT_DATASET_VALUES]; /* name: of a map */
    uint32_t count;
} rt_dataset_value;
typedef struct rt_dataset_idle {
    const char *key, *text; /* and why it has no effect; of a column its name */
} rt_dataset_idle;
typedef struct rt_dataset {
    rt_setting_source *f;
    rt_setting_entry *x; /* the list, whose values become the paths */
    const char *path, *split, *messages;
    uint32_t path_line, split_line;
    rt_dataset_value files;
    rt_dataset_idle column[RT_DATASET_COLUMNS], idle[RT_DATASET_IDLE];
    uint32_t column_count, idle_count;
    uint64_t seen; /* bits: which names were there */
} rt_dataset;
/* A name that is not null. */
int rt_dataset_take(rt_dataset *d, const rt_dataset_value *v);
/* When there are no more. */
int rt_dataset_end(rt_dataset *d);

/* ---- settings_alias.c ---- */
/* Whether a path has the ending of a file of data, and no folder's. */
bool rt_setting_names_file(const char *path);
enum { RT_ALIAS_NONE = UINT32_MAX };
/* The index of an alias by name, with _ or -. */
uint32_t rt_alias_find(const char *name);
/* What the value of an alias may be when it is a map. */
typedef enum rt_alias_shape {
    RT_SHAPE_PLAIN,    /* no map */
    RT_SHAPE_ANY,      /* it is not looked at */
    RT_SHAPE_INSIDE,   /* names of the file */
    RT_SHAPE_DATASETS, /* a list of maps with paths */
} rt_alias_shape;
rt_alias_shape rt_alias_shape_of(uint32_t index);
/* What was made of an entry; where it yields to the command line, that too. */
int rt_source_told(rt_setting_source *f, const rt_setting_entry *x, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The entry of an alias that is not null, the command line's before the file's; of two aliases that say one thing. */
rt_setting_entry *rt_alias_entry(const rt_setting_source *f, const char *name);
rt_setting_entry *rt_alias_either(const rt_setting_source *f, const char *one, const char *two);
typedef enum rt_tool {
#define X(name, text) RT_TOOL_##name,
    RT_ALIAS_TOOLS(X)
#undef X
} rt_tool;
/* Whose name an entry has, and the setting that it gives (RT_SETTING_COUNT_ALL: none, or several). */
rt_tool rt_alias_tool(const rt_setting_entry *x);
rt_setting_id rt_alias_setting(const rt_setting_entry *x);
/* All aliases, after the own names. */
int rt_alias_apply(rt_setting_source *f);
/* The value of --optimizer, or of a name that another tool has for it: our words and theirs. */
int rt_alias_optimizer(rt_setting_source *f, rt_setting_entry *x);

/* ---- settings_trainer.c ---- */
/* The trainer that a file was written for, and what its names mean then; *full is why all parameters are trained,
 * whatever is said of adapters, or null. */
int rt_tool_read(rt_setting_source *f, const char **full);

#endif
