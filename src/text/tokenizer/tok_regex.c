/* tok_regex.c - patterns of tokenizer.json, written for Oniguruma, said in PCRE2's dialect.
 *
 * Owns: the translation. Where both engines read the same text differently (\s, \w, \h, \v, ^ and $, {n,m}+, new code
 * points in \p{..}), the pattern is rewritten to mean what Oniguruma means; what has no certain equal is refused by
 * name. Leaves compiling and matching to tok_match.c. */
#include "text/tokenizer/tok_internal.h"

#include <stdio.h>

typedef struct translator {
    const char *p, *end;
    const char *where;
    rt_str *out;
    rt_str word; /* items of \w, made once */
    rt_err *e;
    bool no_case;
    unsigned depth;
    bool count; /* callouts are wanted */
    uint32_t loops;
    char before; /* under no_case, the literal letter before this one, or 0 */
} translator;

enum { MAX_DEPTH = 60, FEW = 8 };

#define CALLOUT "(?C)"

/* White space, as items of a class. */
#define SPACE_ITEMS                                                                                                    \
    "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

static int refuse(translator *t, const char *what)
{
    return rt_fail(t->e, RT_UNSUPPORTED, "%s: the pattern uses %s, which is not supported", t->where, what);
}

static int bad(translator *t, const char *what)
{
    return rt_fail(t->e, RT_FORMAT, "%s: the pattern %s", t->where, what);
}

static bool at(const translator *t, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(t->end - t->p) >= n && memcmp(t->p, text, n) == 0;
}

static bool eat(translator *t, const char *text)
{
    if (!at(t, text)) return false;
    t->p += strlen(text);
    return true;
}

/* Pairs of letters that Oniguruma, ignoring case, also takes for one ligature or sharp s. */
static bool folds_together(char a, char b)
{
    return (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
}

/* One code point meant as itself, inside or outside of a class. */
static int literal(translator *t, uint32_t cp)
{
    if (t->no_case) {
        if (cp >= 0x80) return refuse(t, "(?i) over a character outside ASCII");
        char letter = (char)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
        if (t->before && folds_together(t->before, letter)) return refuse(t, "(?i) over letters that fold into one");
        t->before = letter;
    }
    if ((cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') || (cp >= '0' && cp <= '9'))
        rt_str_append_cp(t->out, cp);
    else
        rt_str_printf(t->out, "\\x{%X}", cp);
    return RT_OK;
}

static int hex_digits(translator *t, unsigned most, uint32_t *cp)
{
    unsigned n = 0;
    *cp = 0;
    for (; n < most && t->p < t->end; n++, t->p++) {
        char c = *t->p;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) break;
        *cp = *cp << 4 | (uint32_t)digit;
    }
    return n > 0 ? RT_OK : bad(t, "has an escape without its digits");
}

/* After a backslash: a character. *cp is RT_TOK_NONE when the escape is a class or an assertion, and nothing is read.
 */
static int escaped_char(translator *t, uint32_t *cp)
{
    static const char from[] = "tnrfvae", to[] = "\t\n\r\f\v\a\x1B";
    if (t->p == t->end) return bad(t, "ends with a backslash");
    char c = *t->p;
    const char *simple = strchr(from, c);
    if (simple && c) {
        t->p++;
        *cp = (uint8_t)to[simple - from];
        return RT_OK;
    }
    if (c == 'x' || c == 'u') {
        t->p++;
        bool braces = c == 'x' && eat(t, "{");
        int rc = hex_digits(t, braces ? 8 : c == 'u' ? 4 : 2, cp);
        if (rc < 0) return rc;
        if (braces && !eat(t, "}")) return bad(t, "has \\x{ without }");
        /* \xHH is a byte in Oniguruma, not a character. */
        if (!braces && c == 'x' && *cp > 0x7F) return refuse(t, "\\x with a byte above 7F");
        if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp <= 0xDFFF)) return bad(t, "has an escape that is not a character");
        return RT_OK;
    }
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    *cp = RT_TOK_NONE;
    if (letter) return RT_OK;
    uint32_t n;
    *cp = rt_utf8_get(t->p, &n);
    t->p += n;
    return RT_OK;
}

/* The items of \p{name}: what PCRE2 knows and what came later. */
static int property_items(translator *t, const char *name)
{
    char version[32] = "";
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
    unsigned major = 0;
    for (const char *v = version; *v >= '0' && *v <= '9'; v++) major = major * 10 + (unsigned)(*v - '0');
    if (major >= 14 && major <= 16) {
        rt_str_printf(t->out, "\\p{%s}", name);
        if (rt_cp_newer_items(name, t->out)) return RT_OK;
    } else if (strcmp(name, "L") == 0 || strcmp(name, "N") == 0 || strcmp(name, "M") == 0) {
        rt_cp_items(*name == 'L' ? RT_CP_LETTER : *name == 'N' ? RT_CP_NUMBER : RT_CP_MARK, t->out);
        return RT_OK;
    }
    return rt_fail(t->e, RT_UNSUPPORTED, "%s: the pattern uses \\p{%s}, which is not supported (Unicode %s in PCRE2)",
                   t->where, name, version);
}

/* A class escape, at its letter: its items are written, *negated says that it is the complement of them. */
static int class_escape(translator *t, bool *negated)
{
    char c = *t->p++;
    if (t->no_case) return refuse(t, "(?i) over a class of characters");
    *negated = c == 'S' || c == 'D' || c == 'W' || c == 'H';
    switch (c) {
    case 's':
    case 'S': rt_str_append(t->out, SPACE_ITEMS); return RT_OK;
    case 'd':
    case 'D': return property_items(t, "Nd");
    case 'w':
    case 'W':
        if (t->word.len == 0) rt_cp_items(RT_CP_REGEX_WORD, &t->word);
        rt_str_append_n(t->out, t->word.data, t->word.len);
        return RT_OK;
    case 'h':
    case 'H': rt_str_append(t->out, "0-9A-Fa-f"); return RT_OK;
    case 'p':
    case 'P': break;
    default: {
        char what[] = "\\?";
        what[1] = c;
        return refuse(t, what);
    }
    }
    if (!eat(t, "{")) return bad(t, "has \\p without {");
    *negated = c == 'P';
    if (eat(t, "^")) *negated = !*negated;
    char name[3] = "";
    size_t n = 0;
    while (t->p < t->end && *t->p != '}' && n < 2) name[n++] = *t->p++;
    if (!eat(t, "}")) return refuse(t, "a property other than a general category of one or two letters");
    return property_items(t, name);
}

/* One member of a class: *cp is the character, or RT_TOK_NONE for a class escape, whose items have been written. */
static int class_member(translator *t, uint32_t *cp)
{
    if (!eat(t, "\\")) {
        uint32_t n;
        *cp = rt_utf8_get(t->p, &n);
        t->p += n;
        return RT_OK;
    }
    if (at(t, "b")) { /* backspace inside a class */
        t->p++;
        *cp = '\b';
        return RT_OK;
    }
    int rc = escaped_char(t, cp);
    if (rc < 0 || *cp != RT_TOK_NONE) return rc;
    if (at(t, "S")) {
        if (t->no_case) return refuse(t, "(?i) over a class of characters");
        t->p++;
        /* PCRE2 counts U+180E as space, Oniguruma does not. */
        rt_str_append(t->out, "\\S\\x{180E}");
        return RT_OK;
    }
    bool negated;
    rc = class_escape(t, &negated);
    return rc < 0 || !negated ? rc : refuse(t, "a negated class inside [...]");
}

static int class_items(translator *t)
{
    int rc;
    bool any = false;
    for (;; any = true) {
        if (t->p == t->end) return bad(t, "has [ without ]");
        if (eat(t, "]")) return any ? RT_OK : bad(t, "has an empty class");
        if (at(t, "&&")) return refuse(t, "&& inside [...]");
        if (at(t, "[:")) return refuse(t, "[: inside [...]");
        if (eat(t, "[")) {
            if (at(t, "^")) return refuse(t, "a negated class inside [...]");
            if (++t->depth > MAX_DEPTH) return refuse(t, "deep nesting");
            RT_TRY(class_items(t));
            t->depth--;
            continue;
        }
        uint32_t first, last;
        RT_TRY(class_member(t, &first));
        bool range = at(t, "-") && t->end - t->p > 1 && t->p[1] != ']';
        if (first == RT_TOK_NONE) {
            if (range) return refuse(t, "a range that begins with a class");
            continue;
        }
        t->before = 0;
        RT_TRY(literal(t, first));
        if (!range) continue;
        t->p++;
        rt_str_append(t->out, "-");
        if (at(t, "[")) return refuse(t, "a range that ends with a class");
        size_t mark = t->out->len;
        RT_TRY(class_member(t, &last));
        if (last == RT_TOK_NONE || last < first)
            return t->out->len != mark ? refuse(t, "a range that ends with a class")
                                       : bad(t, "has a range that runs backwards");
        t->before = 0;
        RT_TRY(literal(t, last));
    }
out:
    return rc;
}

static int bracket(translator *t)
{
    rt_str_append(t->out, "[");
    if (eat(t, "^")) {
        if (t->no_case) return refuse(t, "(?i) over a negated class");
        rt_str_append(t->out, "^");
    }
    if (at(t, "]")) return refuse(t, "] as the first member of a class");
    int rc = class_items(t);
    rt_str_append(t->out, "]");
    t->before = 0;
    return rc;
}

static int escape(translator *t)
{
    uint32_t cp;
    int rc = escaped_char(t, &cp);
    if (rc < 0) return rc;
    if (cp != RT_TOK_NONE) return literal(t, cp);
    if (at(t, "A") || at(t, "z")) {
        rt_str_printf(t->out, "\\%c", *t->p++);
        return RT_OK;
    }
    size_t open = t->out->len;
    rt_str_append(t->out, "[ "); /* the second becomes ^ or nothing once it is known */
    bool negated;
    rc = class_escape(t, &negated);
    if (rc < 0 || t->out->failed) return rc;
    if (negated) {
        t->out->data[open + 1] = '^';
    } else {
        memmove(t->out->data + open + 1, t->out->data + open + 2, t->out->len - open - 2);
        t->out->len--;
    }
    rt_str_append(t->out, "]");
    t->before = 0;
    return RT_OK;
}

static int alternation(translator *t);

static int group(translator *t)
{
    static const char *const heads[] = { "?:", "?=", "?!", "?<=", "?<!", "?>" };
    bool outer = t->no_case;
    const char *head = NULL;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0] && !head; i++)
        if (eat(t, heads[i])) head = heads[i];
    if (!head && eat(t, "?i:")) {
        head = "?i:";
        t->no_case = true;
    } else if (!head && eat(t, "?m:")) {
        head = "?s:"; /* Ruby's m lets the dot match a newline */
    } else if (!head && at(t, "?")) {
        return refuse(t, "a group that begins with (?");
    }
    if (++t->depth > MAX_DEPTH) return refuse(t, "deep nesting");
    rt_str_printf(t->out, "(%s", head ? head : "");
    if (t->count && head && (head[1] == '=' || head[1] == '!' || head[1] == '<')) rt_str_append(t->out, CALLOUT);
    t->before = 0;
    int rc = alternation(t);
    if (rc < 0) return rc;
    if (!eat(t, ")")) return bad(t, "has ( without )");
    rt_str_append(t->out, ")");
    t->no_case = outer;
    t->before = 0;
    t->depth--;
    return RT_OK;
}

/* {n,m} at p: false when it is not a quantifier but text. */
static bool interval(translator *t, unsigned *low, unsigned *high, bool *fixed)
{
    const char *p = t->p + 1;
    bool digits = false, comma = false;
    unsigned values[2] = { 0, 0 };
    for (; p < t->end && *p != '}'; p++) {
        if (*p == ',' && !comma) {
            comma = true;
        } else if (*p >= '0' && *p <= '9' && values[comma] < 100000) {
            values[comma] = values[comma] * 10 + (unsigned)(*p - '0');
            digits = true;
        } else {
            return false;
        }
    }
    if (p == t->end || !digits) return false;
    *low = values[0];
    *fixed = !comma;
    *high = !comma ? values[0] : p[-1] == ',' ? UINT32_MAX : values[1];
    t->p = p + 1;
    return true;
}

/* Puts what was written from start on between head and tail. */
static void wrap(translator *t, size_t start, const char *head, const char *tail)
{
    rt_str inner = { 0 };
    if (t->out->failed) return;
    rt_str_append_n(&inner, t->out->data + start, t->out->len - start);
    t->out->len = start;
    rt_str_printf(t->out, "%s%s%s", head, inner.data ? inner.data : "", tail);
    t->out->failed = t->out->failed || inner.failed;
    rt_str_free(&inner);
}

/* The quantifier behind an atom that was written at start, if there is one. */
static int quantifier(translator *t, size_t start)
{
    unsigned low = 0, high = 0;
    bool fixed = false;
    if (t->p == t->end) return RT_OK;
    char c = *t->p;
    if (c == '*' || c == '+' || c == '?') {
        t->p++;
        rt_str_printf(t->out, "%c", c);
    } else if (c == '{' && interval(t, &low, &high, &fixed)) {
        if (high < low || low > 60000 || (high > 60000 && high != UINT32_MAX))
            return refuse(t, "a repetition out of order or too large");
        /* Many that are needed may be read in vain: each is a step of its own. */
        if (t->count && low > FEW) wrap(t, start, "(?:" CALLOUT, ")");
        rt_str_printf(t->out, "{%u", low);
        if (!fixed) rt_str_append(t->out, ",");
        if (!fixed && high != UINT32_MAX) rt_str_printf(t->out, "%u", high);
        rt_str_append(t->out, "}");
    } else {
        return RT_OK;
    }
    t->before = 0;
    if (at(t, "?")) {
        if (fixed) return refuse(t, "{n}?");
        t->p++;
        rt_str_append(t->out, "?");
    } else if (at(t, "+")) {
        t->p++;
        if (c != '{') {
            rt_str_append(t->out, "+");
        } else {
            /* Behind an interval the plus repeats it once more; it is not possessive. */
            wrap(t, start, "(?:", ")+");
        }
    }
    if (t->p < t->end && (*t->p == '*' || *t->p == '+' || *t->p == '?'))
        return refuse(t, "a repetition of a repetition");
    if (at(t, "{")) {
        const char *p = t->p;
        if (interval(t, &low, &high, &fixed)) return refuse(t, "a repetition of a repetition");
        t->p = p;
    }
    return RT_OK;
}

static int atom(translator *t)
{
    char c = *t->p;
    uint32_t n;
    switch (c) {
    case '(': t->p++; return group(t);
    case '[': t->p++; return bracket(t);
    case '\\': t->p++; return escape(t);
    case '.':
    case '^':
    case '$':
        t->p++;
        t->before = 0;
        rt_str_printf(t->out, "%c", c);
        return RT_OK;
    case '*':
    case '+':
    case '?': return bad(t, "repeats nothing");
    default: break;
    }
    uint32_t cp = rt_utf8_get(t->p, &n);
    t->p += n;
    return literal(t, cp);
}

static int alternation(translator *t)
{
    int rc = RT_OK;
    while (t->p < t->end && *t->p != ')') {
        if (eat(t, "|")) {
            t->before = 0;
            rt_str_append(t->out, "|");
            continue;
        }
        size_t start = t->out->len;
        bool again = *t->p == '(', assertion = *t->p == '^' || *t->p == '$' || at(t, "\\A") || at(t, "\\z");
        RT_TRY(atom(t));
        size_t before = t->out->len;
        RT_TRY(quantifier(t, start));
        if (assertion && t->out->len != before) return refuse(t, "a repeated ^ or $");
        if (t->out->len != before) {
            t->loops++;
            again = true;
        }
        /* At the end of a match nothing is tried again. */
        bool last = t->depth == 0 && (t->p == t->end || *t->p == '|');
        if (t->count && again && !last) rt_str_append(t->out, CALLOUT);
        if (t->out->failed) return rt_tok_out_of_memory(t->e);
    }
out:
    return rc;
}

int rt_tok_regex_translate(const char *pattern, size_t len, const char *where, uint32_t *loops, rt_str *out, rt_err *e)
{
    translator t = { .p = pattern, .end = pattern + len, .where = where, .out = out, .count = loops, .e = e };
    if (eat(&t, "(?i)")) {
        t.no_case = true;
        rt_str_append(out, "(?i)");
    }
    int rc = alternation(&t);
    if (rc == RT_OK && t.p < t.end) rc = bad(&t, "has ) without (");
    if (rc == RT_OK && (out->failed || t.word.failed)) rc = rt_tok_out_of_memory(e);
    rt_str_free(&t.word);
    if (loops) *loops = t.loops;
    return rc;
}
