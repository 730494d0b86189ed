/* options.h - what a user says about a device: options by name, and the environment.
 *
 * Owns: the list as it is handed to `probe` and `open`, and the table with which a backend says what it takes. A
 * backend reads the list into a struct of its own (rt_dev_options_read); names that are not in its table are another
 * backend's and are passed over. A name that is in no table at all is refused by rt_device_open. */
#ifndef RT_BACKEND_OPTIONS_H
#define RT_BACKEND_OPTIONS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name: of the flag, without its dashes. value: its text, of a switch "on" or "off"; null: as if it were not there. */
typedef struct rt_dev_option {
    const char *name, *value;
} rt_dev_option;

typedef struct rt_dev_opts {
    const rt_dev_option *option; /* (count); of a name that is there twice the last counts */
    uint32_t count;
    uint32_t defaults;      /* the last so many are said for their sake alone: nobody has asked for them */
    const char *const *env; /* "NAME=value", ended by null; null: empty. It outlives the device; nobody below reads the
                             * process's own. */
    const char *left_out;   /* devices that are not to be taken, "gpu:0 gpu:1", or all of a backend; empty: none, and
                               the next one where a device by name cannot be opened; null: neither */
    bool unnamed;           /* to probe: nobody has named a device, so those that only a name gets may be left out */
} rt_dev_opts;

/* RT_DEV_OPTIONS({ "threads", "2" }, ...): the list of some, without an environment. */
#define RT_DEV_OPTIONS(...)                                                                                            \
    (rt_dev_opts)                                                                                                      \
    {                                                                                                                  \
        .option = (const rt_dev_option[]){ __VA_ARGS__ },                                                              \
        .count = sizeof((const rt_dev_option[]){ __VA_ARGS__ }) / sizeof(rt_dev_option)                                \
    }

/* TEXT const char *; COUNT uint32_t; SWITCH bool; CHOICE uint32_t, the index in values. All are 0 when not given. */
typedef enum rt_dev_option_kind {
    RT_DEV_OPTION_TEXT,
    RT_DEV_OPTION_COUNT,
    RT_DEV_OPTION_SWITCH,
    RT_DEV_OPTION_CHOICE,
} rt_dev_option_kind;

/* An option that a backend takes. Its table ends with a null flag. */
typedef struct rt_dev_option_info {
    const char *flag; /* "--device-memory": the name with its dashes */
    rt_dev_option_kind kind;
    uint32_t offset;           /* in the backend's own struct */
    const char *const *values; /* of a CHOICE, ended by null */
    const char *metavar;       /* "N"; null for a SWITCH */
    const char *help;          /* a noun phrase */
} rt_dev_option_info;

/* The row of an option by name; null when the table has none. table may be null. */
const rt_dev_option_info *rt_dev_option_find(const rt_dev_option_info *table, const char *name);
/* The options of the table into out, a backend's own zeroed struct; out null: they are only checked. RT_USAGE names the
 * flag and what it takes. o may be null. */
int rt_dev_options_read(void *out, const rt_dev_option_info *table, const rt_dev_opts *o, rt_err *e);
/* The value of a variable; null when it is not set. env as in rt_dev_opts. */
const char *rt_dev_env(const char *const *env, const char *name);

/* A count as the value of an option; returns text. */
enum { RT_DEV_COUNT_TEXT = 21 };
const char *rt_dev_count(char text[RT_DEV_COUNT_TEXT], uint64_t count);

#endif
