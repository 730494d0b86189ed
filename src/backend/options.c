/* options.c - see options.h. */
#include "backend/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const rt_dev_opts *o, const char *name)
{
    const char *value = NULL;
    for (uint32_t i = 0; o && i < o->count; i++)
        if (o->option[i].value && strcmp(o->option[i].name, name) == 0) value = o->option[i].value;
    return value;
}

const rt_dev_option_info *rt_dev_option_find(const rt_dev_option_info *table, const char *name)
{
    for (; table && table->flag; table++)
        if (strcmp(table->flag + 2, name) == 0) return table;
    return NULL;
}

static int read_count(uint32_t *to, const char *flag, const char *text, rt_err *e)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9' || v > UINT32_MAX)
        return rt_fail(e, RT_USAGE, "%s takes a whole number, not '%s'", flag, text);
    *to = (uint32_t)v;
    return RT_OK;
}

static int read_switch(bool *to, const char *flag, const char *text, rt_err *e)
{
    *to = strcmp(text, "on") == 0;
    if (*to || strcmp(text, "off") == 0) return RT_OK;
    return rt_fail(e, RT_USAGE, "%s is on or off, not '%s'", flag, text);
}

static int read_choice(uint32_t *to, const rt_dev_option_info *f, const char *text, rt_err *e)
{
    char known[160];
    size_t n = 0;
    for (uint32_t i = 0; f->values[i]; i++) {
        if (strcmp(f->values[i], text) == 0) {
            *to = i;
            return RT_OK;
        }
        const char *before = i == 0 ? "" : f->values[i + 1] ? ", " : " or ";
        if (n < sizeof known) n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", before, f->values[i]);
    }
    return rt_fail(e, RT_USAGE, "%s %s: it is %s", f->flag, text, known);
}

int rt_dev_options_read(void *out, const rt_dev_option_info *table, const rt_dev_opts *o, rt_err *e)
{
    int rc = RT_OK;
    for (const rt_dev_option_info *f = table; f && f->flag; f++) {
        union {
            const char *text;
            uint32_t count;
            bool on;
        } unwanted;
        const char *text = value_of(o, f->flag + 2);
        void *to = out ? (char *)out + f->offset : (void *)&unwanted;
        if (!text) continue;
        switch (f->kind) {
        case RT_DEV_OPTION_TEXT: *(const char **)to = text; break;
        case RT_DEV_OPTION_COUNT: RT_TRY(read_count(to, f->flag, text, e)); break;
        case RT_DEV_OPTION_SWITCH: RT_TRY(read_switch(to, f->flag, text, e)); break;
        case RT_DEV_OPTION_CHOICE: RT_TRY(read_choice(to, f, text, e)); break;
        }
    }
out:
    return rc;
}

const char *rt_dev_env(const char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') return *env + n + 1;
    return NULL;
}

const char *rt_dev_count(char text[RT_DEV_COUNT_TEXT], uint64_t count)
{
    snprintf(text, RT_DEV_COUNT_TEXT, "%" PRIu64, count);
    return text;
}
