/* recompute.c - see recompute.h. */
#include "train/recompute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[RT_RECOMPUTE_LEVELS] = { "none", "norms", "mlp", "block" }, keep[] = "keep";

rt_recompute_counts rt_recompute_every(rt_recompute r)
{
    rt_recompute_counts c = { .keep = r == RT_RECOMPUTE_NOTHING };
    if (r > RT_RECOMPUTE_NONE) c.count[r] = RT_RECOMPUTE_ALL;
    return c;
}

bool rt_recompute_same(const rt_recompute_counts *a, const rt_recompute_counts *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

uint32_t rt_recompute_named(const rt_recompute_counts *c)
{
    uint32_t sum = 0;
    for (int r = 1; r < RT_RECOMPUTE_LEVELS; r++) sum += c->count[r];
    return sum;
}

/* "block:14" at *text, up to the comma that follows or the end; false: no such thing, or a level twice. */
static bool parse_one(const char **text, rt_recompute_counts *out)
{
    for (int r = 1; r < RT_RECOMPUTE_LEVELS; r++) {
        size_t n = strlen(names[r]);
        char *end;
        if (strncmp(*text, names[r], n) != 0 || (*text)[n] != ':') continue;
        const char *digits = *text + n + 1;
        unsigned long layers = strtoul(digits, &end, 10);
        if (*digits < '0' || *digits > '9' || layers == 0 || layers > RT_MAX_LAYERS || out->count[r]) return false;
        if (*end && (*end != ',' || !end[1])) return false;
        out->count[r] = (uint32_t)layers;
        *text = *end ? end + 1 : end;
        return true;
    }
    return false;
}

bool rt_recompute_parse(const char *text, rt_recompute_counts *out)
{
    if (strcmp(text, keep) == 0) return *out = rt_recompute_every(RT_RECOMPUTE_NOTHING), true;
    for (int r = 0; r < RT_RECOMPUTE_LEVELS; r++)
        if (strcmp(text, names[r]) == 0) return *out = rt_recompute_every((rt_recompute)r), true;
    *out = (rt_recompute_counts){ 0 };
    do
        if (!parse_one(&text, out)) return false;
    while (*text);
    return true;
}

char *rt_recompute_text(char buf[RT_RECOMPUTE_TEXT], const rt_recompute_counts *c)
{
    size_t at = 0;
    snprintf(buf, RT_RECOMPUTE_TEXT, "%s", c->keep ? keep : names[RT_RECOMPUTE_NONE]);
    for (int r = RT_RECOMPUTE_LEVELS; --r > 0;) {
        if (!c->count[r]) continue;
        const char *comma = at ? "," : "";
        at += (size_t)(c->count[r] == RT_RECOMPUTE_ALL
                           ? snprintf(buf + at, RT_RECOMPUTE_TEXT - at, "%s%s", comma, names[r])
                           : snprintf(buf + at, RT_RECOMPUTE_TEXT - at, "%s%s:%u", comma, names[r], c->count[r]));
    }
    return buf;
}

void rt_recompute_levels(const rt_recompute_counts *c, uint32_t lowest, uint32_t layers, rt_recompute *out)
{
    uint32_t at = 0;
    for (; at < layers && at < lowest; at++) out[at] = RT_RECOMPUTE_NONE;
    for (int r = RT_RECOMPUTE_LEVELS; --r > 0;)
        for (uint32_t n = 0; at < layers && n < c->count[r]; n++) out[at++] = (rt_recompute)r;
    while (at < layers) out[at++] = c->keep ? RT_RECOMPUTE_NOTHING : RT_RECOMPUTE_NONE;
}
