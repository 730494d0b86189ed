/* jinja_lexer.c - a template's text as tokens, with all rules about white space around tags.
 *
 * Owns: newlines made one kind, the last one dropped, trim_blocks (a newline after a tag goes), lstrip_blocks (blanks
 * before a tag that begins its line go), the signs - and +, comments, raw blocks, literals and their escapes. */
#include "base/utf8.h"
#include "text/jinja/jinja_ast.h"
#include "text/jinja/jinja_unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 200 }; /* open brackets inside one tag */

typedef struct lexer {
    rt_jrun *r;
    const char *text;
    size_t len, at;
    uint32_t line;
    bool line_starting; /* the last tag took the newline with it, so the text after it begins a line */
    rt_jtokens *out;
    char open[MAX_NESTING];
    uint32_t n_open;
} lexer;

/* ---- small steps ---- */

static int push(lexer *x, int kind, rt_jval value)
{
    rt_jtokens *t = x->out;
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 64;
        rt_jtoken *bigger = rt_j_alloc(x->r, cap * sizeof *bigger);
        if (!bigger) return rt_j_status(x->r);
        if (t->n > 0) memcpy(bigger, t->items, t->n * sizeof *bigger);
        t->items = bigger;
        t->cap = cap;
    }
    t->items[t->n++] = (rt_jtoken){ kind, x->line, value };
    return RT_OK;
}

static void advance(lexer *x, size_t to)
{
    for (; x->at < to; x->at++) x->line += x->text[x->at] == '\n';
    x->r->line = x->line;
}

static bool looking_at(const lexer *x, size_t at, const char *what)
{
    size_t n = strlen(what);
    return x->len - at >= n && memcmp(x->text + at, what, n) == 0;
}

static size_t skip_space(const lexer *x, size_t at)
{
    while (at < x->len) {
        size_t next = at;
        if (!rt_ju_space(rt_j_decode(x->text, x->len, &next))) break;
        at = next;
    }
    return at;
}

/* text[from, to) without white space at its end */
static size_t strip_end(const lexer *x, size_t from, size_t to)
{
    while (to > from) {
        size_t at = to - 1, next;
        while (at > from && ((unsigned char)x->text[at] & 0xC0) == 0x80) at--;
        next = at;
        if (!rt_ju_space(rt_j_decode(x->text, x->len, &next))) break;
        to = at;
    }
    return to;
}

static bool all_space(const lexer *x, size_t from, size_t to) { return strip_end(x, from, to) == from; }

/* The text before a tag whose sign is '-', '+' or 0. */
static int push_data(lexer *x, size_t from, size_t to, char sign, bool variable)
{
    size_t end = to;
    if (sign == '-') {
        end = strip_end(x, from, to);
    } else if (sign != '+' && !variable) {
        size_t line = to;
        while (line > from && x->text[line - 1] != '\n') line--;
        if ((line > from || x->line_starting) && line < to && all_space(x, line, to)) end = line;
    }
    rt_jval value;
    int rc = RT_OK;
    if (end > from) {
        rc = rt_jstr_view(x->r, x->text + from, end - from, &value);
        if (rc == RT_OK) rt_jstr_chars(x->r, value.s);
        if (rc == RT_OK) rc = push(x, RT_JT_DATA, value);
    }
    advance(x, to);
    return rc;
}

/* Past the end of a tag at `at` (at its sign or its closing mark), or SIZE_MAX when there is none. */
static size_t tag_end(const lexer *x, size_t at, const char *mark, bool plus, bool trim)
{
    bool minus = looking_at(x, at, "-"), added = plus && looking_at(x, at, "+");
    if ((minus || added) && looking_at(x, at + 1, mark)) {
        at += 1 + strlen(mark);
        return minus ? skip_space(x, at) : at;
    }
    if (!looking_at(x, at, mark)) return SIZE_MAX;
    at += strlen(mark);
    return trim && looking_at(x, at, "\n") ? at + 1 : at;
}

/* ---- literals ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* \xHH \uHHHH \UHHHHHHHH: digits from text + at. */
static int hex_escape(lexer *x, size_t at, size_t end, uint32_t digits, uint32_t *c)
{
    *c = 0;
    for (uint32_t i = 0; i < digits; i++) {
        int h = at + i < end ? hex_value(x->text[at + i]) : -1;
        if (h < 0) return rt_j_fail(x->r, "a string has an escape with too few digits");
        *c = *c << 4 | (uint32_t)h;
    }
    if (*c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000))
        return rt_j_fail(x->r, "a string has the escape of a code point that no text can hold");
    return RT_OK;
}

/* One escape at text[*at] (after the backslash) into buf; *n bytes. Unknown ones stay as they are written. */
static int escape(lexer *x, size_t *at, size_t end, char buf[16], uint32_t *n)
{
    static const char plain[] = "\\'\"abfnrtv", meaning[] = "\\'\"\a\b\f\n\r\t\v";
    char c = x->text[*at];
    uint32_t code = 0;
    const char *known = c ? strchr(plain, c) : NULL;
    int rc = RT_OK;
    *n = 0;
    if (c == '\n') {
        *at += 1;
    } else if (known) {
        buf[(*n)++] = meaning[known - plain];
        *at += 1;
    } else if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && *at < end && x->text[*at] >= '0' && x->text[*at] <= '7'; i++, *at += 1)
            code = code * 8 + (uint32_t)(x->text[*at] - '0');
        *n = rt_utf8_put(code, buf);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        uint32_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if ((rc = hex_escape(x, *at + 1, end, digits, &code)) < 0) return rc;
        *n = rt_utf8_put(code, buf);
        *at += 1 + digits;
    } else if (c == 'N') {
        rc = rt_j_unsupported(x->r, "the escape \\N in a string is not supported");
    } else if ((unsigned char)c >= 0x80) {
        /* Python turns the letter into an escape first, whose backslash then pairs with the one before it. */
        code = rt_j_decode(x->text, x->len, at);
        *n = (uint32_t)snprintf(buf, 16, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    } else {
        buf[(*n)++] = '\\';
    }
    return rc;
}

static int lex_string(lexer *x)
{
    char quote = x->text[x->at];
    size_t end = x->at + 1;
    while (end < x->len && x->text[end] != quote) end += x->text[end] == '\\' ? 2 : 1;
    if (end >= x->len) return rt_j_fail(x->r, "unexpected char '%c' (a string without its end?)", quote);
    char *data = rt_j_alloc(x->r, 2 * (end - x->at) + 16);
    if (!data) return rt_j_status(x->r);
    size_t n = 0;
    for (size_t at = x->at + 1; at < end;) {
        char buf[16];
        uint32_t bytes;
        if (x->text[at] != '\\') {
            data[n++] = x->text[at++];
            continue;
        }
        at++;
        int rc = escape(x, &at, end, buf, &bytes);
        if (rc < 0) return rc;
        memcpy(data + n, buf, bytes);
        n += bytes;
    }
    rt_jval value;
    int rc = rt_jstr_view(x->r, data, n, &value);
    if (rc == RT_OK) rt_jstr_chars(x->r, value.s);
    if (rc == RT_OK) rc = push(x, RT_JT_STRING, value);
    advance(x, end + 1);
    return rc;
}

static bool is_zero(char c) { return c == '0'; }
static bool is_binary(char c) { return c == '0' || c == '1'; }
static bool is_octal(char c) { return c >= '0' && c <= '7'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) { return hex_value(c) >= 0; }

/* Digits with single underscores between them, from at on: where they end, at itself when there are none. */
static size_t digits_end(const lexer *x, size_t at, bool (*digit)(char))
{
    if (at >= x->len || !digit(x->text[at])) return at;
    for (;;) {
        at++;
        if (at + 1 < x->len && x->text[at] == '_' && digit(x->text[at + 1]))
            at++;
        else if (at >= x->len || !digit(x->text[at]))
            return at;
    }
}

/* The end of a float at x->at, or x->at when there is none. */
static size_t float_end(const lexer *x)
{
    size_t whole = digits_end(x, x->at, is_digit), end = whole;
    if (whole == x->at || (x->at > 0 && x->text[x->at - 1] == '.')) return x->at;
    if (looking_at(x, whole, ".")) {
        size_t part = digits_end(x, whole + 1, is_digit);
        if (part > whole + 1) end = part;
    }
    if (looking_at(x, end, "e") || looking_at(x, end, "E")) {
        size_t sign = end + 1 + (looking_at(x, end + 1, "+") || looking_at(x, end + 1, "-"));
        size_t exponent = digits_end(x, sign, is_digit);
        if (exponent > sign) return exponent;
    }
    return end > whole ? end : x->at;
}

/* The end of an integer at x->at, its base, and where its digits begin. */
static size_t int_end(const lexer *x, uint32_t *base, size_t *digits)
{
    static const struct {
        char letter;
        uint32_t base;
        bool (*digit)(char);
    } kinds[] = { { 'b', 2, is_binary }, { 'o', 8, is_octal }, { 'x', 16, is_hex } };
    *base = 10;
    *digits = x->at;
    if (x->text[x->at] != '0') return digits_end(x, x->at, is_digit);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && x->at + 2 < x->len; k++) {
        if ((x->text[x->at + 1] | 32) != kinds[k].letter) continue;
        size_t from = x->at + 2 + (x->text[x->at + 2] == '_'), end = digits_end(x, from, kinds[k].digit);
        if (end == from) break;
        *base = kinds[k].base;
        *digits = from;
        return end;
    }
    return digits_end(x, x->at, is_zero);
}

static int lex_number(lexer *x)
{
    size_t end = float_end(x), from = x->at;
    uint32_t base = 10;
    char digits[400];
    uint64_t number = 0;
    bool is_float = end > x->at;
    if (!is_float) end = int_end(x, &base, &from);
    size_t n = 0;
    for (size_t at = from; at < end; at++) {
        if (x->text[at] == '_') continue;
        if (n + 1 >= sizeof digits) return rt_j_fail(x->r, "a number has too many digits");
        digits[n++] = x->text[at];
        if (is_float) continue;
        if (!rt_mul_u64(number, base, &number) || !rt_add_u64(number, (uint64_t)hex_value(x->text[at]), &number) ||
            number > INT64_MAX)
            return rt_j_fail(x->r, "an integer does not fit into 64 bits");
    }
    digits[n] = '\0';
    int rc = is_float ? push(x, RT_JT_FLOAT, rt_jv_float(strtod(digits, NULL)))
                      : push(x, RT_JT_INT, rt_jv_int((int64_t)number));
    advance(x, end);
    return rc;
}

static bool name_part(uint32_t c)
{
    return c < 0x80 ? c == '_' || is_digit((char)c) || ((c | 32) >= 'a' && (c | 32) <= 'z') : rt_ju_name_part(c);
}

static int lex_name(lexer *x)
{
    size_t end = x->at;
    while (end < x->len) {
        size_t next = end;
        if (!name_part(rt_j_decode(x->text, x->len, &next))) break;
        end = next;
    }
    size_t first = x->at;
    if (!rt_ju_name_start(rt_j_decode(x->text, x->len, &first)))
        return rt_j_fail(x->r, "invalid character in identifier");
    rt_jval value;
    int rc = rt_jstr_view(x->r, x->text + x->at, end - x->at, &value);
    if (rc == RT_OK) rt_jstr_chars(x->r, value.s);
    if (rc == RT_OK) rc = push(x, RT_JT_NAME, value);
    advance(x, end);
    return rc;
}

/* ---- inside a tag ---- */

static int lex_operator(lexer *x)
{
    static const char two[][3] = { "//", "**", "==", "!=", ">=", "<=" };
    char c = x->text[x->at];
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        if (!looking_at(x, x->at, two[i])) continue;
        int rc = push(x, RT_JT_2(two[i][0], two[i][1]), rt_jv(RT_J_NONE));
        advance(x, x->at + 2);
        return rc;
    }
    if (!c || !strchr("+-/*%~[](){}><=.:|,;", c)) {
        size_t next = x->at;
        uint32_t code = rt_j_decode(x->text, x->len, &next);
        return rt_j_fail(x->r, "unexpected character '%.*s' (U+%04X)", (int)(next - x->at), x->text + x->at, code);
    }
    if (strchr("([{", c)) {
        if (x->n_open == MAX_NESTING) return rt_j_fail(x->r, "brackets are nested too deeply");
        x->open[x->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (x->n_open == 0) return rt_j_fail(x->r, "unexpected '%c'", c);
        char wanted = x->open[--x->n_open];
        if (wanted != c) return rt_j_fail(x->r, "unexpected '%c', expected '%c'", c, wanted);
    }
    int rc = push(x, c, rt_jv(RT_J_NONE));
    advance(x, x->at + 1);
    return rc;
}

/* From behind the opening mark to behind the closing one. */
static int lex_tag(lexer *x, bool block)
{
    int rc = push(x, block ? RT_JT_BLOCK_BEGIN : RT_JT_VAR_BEGIN, rt_jv(RT_J_NONE));
    x->n_open = 0;
    while (rc == RT_OK) {
        if (x->at >= x->len) return rt_j_fail(x->r, "a tag lacks its end '%s'", block ? "%}" : "}}");
        size_t end = x->n_open > 0 ? SIZE_MAX : tag_end(x, x->at, block ? "%}" : "}}", block, block);
        if (end != SIZE_MAX) {
            rc = push(x, block ? RT_JT_BLOCK_END : RT_JT_VAR_END, rt_jv(RT_J_NONE));
            x->line_starting = end > 0 && x->text[end - 1] == '\n';
            advance(x, end);
            return rc;
        }
        char c = x->text[x->at];
        size_t blank = skip_space(x, x->at), letter = x->at;
        if (blank > x->at)
            advance(x, blank);
        else if (is_digit(c))
            rc = lex_number(x);
        else if (c == '\'' || c == '"')
            rc = lex_string(x);
        else if (name_part(rt_j_decode(x->text, x->len, &letter)))
            rc = lex_name(x);
        else
            rc = lex_operator(x);
        if (rc == RT_OK) rc = rt_j_tick(x->r, 1);
    }
    return rc;
}

/* ---- between tags ---- */

static char sign_at(const lexer *x, size_t at) { return at < x->len && strchr("-+", x->text[at]) ? x->text[at] : 0; }

/* Behind `word` and the end of the tag, for a tag whose inside begins at `at`; SIZE_MAX when it is another tag. */
static size_t raw_tag(const lexer *x, size_t at, const char *word, bool ends)
{
    at = skip_space(x, at);
    if (!looking_at(x, at, word)) return SIZE_MAX;
    return tag_end(x, skip_space(x, at + strlen(word)), "%}", ends, ends);
}

/* From behind {% raw %} to behind {% endraw %}. */
static int lex_raw(lexer *x)
{
    for (size_t at = x->at; at + 1 < x->len; at++) {
        if (!looking_at(x, at, "{%")) continue;
        char sign = sign_at(x, at + 2);
        size_t end = raw_tag(x, at + 2 + (sign != 0), "endraw", true);
        if (end == SIZE_MAX) continue;
        int rc = push_data(x, x->at, at, sign, false);
        x->line_starting = x->text[end - 1] == '\n';
        advance(x, end);
        return rc;
    }
    /* With nothing behind it Jinja does not notice. */
    return x->at == x->len ? RT_OK : rt_j_fail(x->r, "a raw block lacks its end {%% endraw %%}");
}

static int lex_comment(lexer *x)
{
    for (size_t at = x->at; at < x->len; at++) {
        size_t end = tag_end(x, at, "#}", true, true);
        if (end == SIZE_MAX) continue;
        x->line_starting = x->text[end - 1] == '\n';
        advance(x, end);
        return RT_OK;
    }
    return x->at == x->len ? RT_OK : rt_j_fail(x->r, "a comment lacks its end '#}'");
}

/* The text up to the next tag, and that tag. */
static int lex_next(lexer *x)
{
    size_t at = x->at;
    while (at + 1 < x->len && !(x->text[at] == '{' && strchr("{%#", x->text[at + 1]) && x->text[at + 1])) at++;
    if (at + 1 >= x->len) return push_data(x, x->at, x->len, '+', false);
    char kind = x->text[at + 1], sign = sign_at(x, at + 2);
    size_t inside = at + 2 + (sign != 0);
    int rc = push_data(x, x->at, at, sign, kind == '{');
    if (rc < 0) return rc;
    size_t raw = kind == '%' ? raw_tag(x, inside, "raw", false) : SIZE_MAX;
    if (raw != SIZE_MAX) {
        x->line_starting = x->text[raw - 1] == '\n';
        advance(x, raw);
        return lex_raw(x);
    }
    advance(x, inside);
    return kind == '#' ? lex_comment(x) : lex_tag(x, kind == '%');
}

int rt_jinja_lex(rt_jrun *r, const char *text, size_t bytes, rt_jtokens *out)
{
    char *copy = rt_j_alloc(r, bytes + 1);
    if (!copy) return rt_j_status(r);
    lexer x = { .r = r, .text = copy, .line = 1, .line_starting = true, .out = out };
    r->line = 1;
    if (rt_utf8_valid(text, bytes) != bytes) return rt_j_fail(r, "the template is not valid UTF-8");
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n') continue;
        copy[x.len++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (x.len > 0 && copy[x.len - 1] == '\n') x.len--;
    int rc = RT_OK;
    while (rc == RT_OK && x.at < x.len) rc = lex_next(&x);
    return rc == RT_OK ? push(&x, RT_JT_END, rt_jv(RT_J_NONE)) : rc;
}
