/* json_members.c - the members of a JSON object one at a time. See json.h. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void skip_space(rt_json_members *m)
{
    while (m->at < m->len && is_space(m->text[m->at])) m->at++;
}

/* Whether the next character is c, which is then passed. */
static bool pass(rt_json_members *m, char c)
{
    skip_space(m);
    if (m->at == m->len || m->text[m->at] != c) return false;
    m->at++;
    return true;
}

static int fault(const rt_json_members *m, const char *what, json_error_t *why)
{
    *why = (json_error_t){ .position = (int)m->at };
    snprintf(why->text, sizeof why->text, "%s", what);
    return RT_FORMAT;
}

/* Behind the string that begins at `at`; the end of the text where it has no end. */
static size_t string_end(const rt_json_members *m, size_t at)
{
    for (at++; at < m->len && m->text[at] != '"'; at++) at += m->text[at] == '\\';
    return at < m->len ? at + 1 : m->len;
}

/* Behind the value that begins at `at`, if it is one: whoever parses it finds what is wrong inside. */
static size_t value_end(const rt_json_members *m, size_t at)
{
    size_t depth = 0, begun = at;
    while (at < m->len) {
        char c = m->text[at];
        if (c == '{' || c == '[') depth++;
        if (!depth && (c == ',' || c == '}' || c == ']' || (at > begun && is_space(c)))) break;
        at = c == '"' ? string_end(m, at) : at + 1;
        if ((c == '}' || c == ']') && --depth == 0) break;
        if (c == '"' && depth == 0) break;
    }
    return at;
}

int rt_json_parse_part(const rt_json_members *m, rt_span part, json_t **out, json_error_t *why)
{
    *out = rt_json_load(part.data, part.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, why);
    if (*out) return RT_OK;
    why->position += (int)(part.data - m->text);
    return rt_json_out_of_memory() ? RT_NOMEM : RT_FORMAT;
}

int rt_json_member(rt_json_members *m, json_t **key, rt_span *value, json_error_t *why)
{
    *key = NULL;
    if (!m->begun && !pass(m, '{')) return fault(m, "'{' expected", why);
    bool first = !m->begun;
    m->begun = true;
    if (pass(m, '}')) {
        skip_space(m);
        return m->at == m->len ? 0 : fault(m, "end of file expected", why);
    }
    if (!first && !pass(m, ',')) return fault(m, "',' or '}' expected", why);
    skip_space(m);
    if (m->at == m->len || m->text[m->at] != '"') return fault(m, "string expected", why);
    rt_span name = { m->text + m->at, string_end(m, m->at) - m->at };
    int rc = rt_json_parse_part(m, name, key, why);
    if (rc < 0) return rc;
    m->at += name.len;
    if (!pass(m, ':')) return fault(m, "':' expected", why);
    skip_space(m);
    *value = (rt_span){ m->text + m->at, value_end(m, m->at) - m->at };
    m->at += value->len;
    return value->len ? 1 : fault(m, "value expected", why);
}
