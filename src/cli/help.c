/* help.c - what `--help` says: text that fits its terminal, and JSON for tools that wrap retort.
 *
 * Owns: the layout of help, and what a flag's value may be where its kind does not say (choices, file names). */
#include "cli/cli.h"

#include "settings/settings.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Every command has it; args.c knows it. */
static const rt_flag help_flag = { "--help", RT_FLAG_BOOL, NULL, NULL,
                                   "this text; --help=json: the same for programs" };

/* ---- text ---- */

enum { PIPED = 100, NARROWEST = 40, WIDEST = 120, FLAG_COLUMN = 25, NARROW_COLUMN = 6 };

rt_page rt_page_of(FILE *to)
{
    struct winsize size = { 0 };
    rt_page p = { to, PIPED };
    if (!isatty(fileno(to))) return p;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && ioctl(fileno(to), TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width > 0) p.width = width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : (uint32_t)width;
    return p;
}

/* Characters, which are columns too in what the tables hold. */
static uint32_t columns_of(const char *text, size_t len)
{
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* The words of text from column at on; new lines begin at indent, and the line before each ends with join. A blank line
 * stays one. A word ends at a space outside of quotes where quoted is set. */
static void wrap(const rt_page *p, uint32_t at, uint32_t indent, const char *text, bool quoted, const char *join)
{
    uint32_t room = p->width - columns_of(join, strlen(join));
    bool first = true;
    while (*text) {
        size_t gap = strspn(text, " \n"), len = 0;
        bool blank = strncmp(text, "\n\n", 2) == 0;
        for (bool in = false; text[gap + len] && (in || !strchr(" \n", text[gap + len])); len++)
            in ^= quoted && text[gap + len] == '\'';
        if (len == 0) break;
        uint32_t columns = columns_of(text + gap, len);
        if (!first && (blank || at + 1 + columns > room)) {
            fprintf(p->to, "%s\n%s%*s", join, blank ? "\n" : "", (int)indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', p->to);
            at++;
        }
        fwrite(text + gap, 1, len, p->to);
        at += columns;
        text += gap + len;
        first = false;
    }
    fputc('\n', p->to);
}

void rt_page_row(const rt_page *p, uint32_t column, const char *left, const char *text)
{
    uint32_t used = 2 + columns_of(left, strlen(left));
    if (p->width < 2 * column) column = NARROW_COLUMN;
    fprintf(p->to, "  %s", left);
    if (used < column)
        fprintf(p->to, "%*s", (int)(column - used), "");
    else
        fprintf(p->to, "\n%*s", (int)column, "");
    wrap(p, column, column, text, false, "");
}

void rt_help_print(const rt_command *c)
{
    rt_page p = rt_page_of(stdout);
    printf("usage: ");
    wrap(&p, 7, 7, c->usage, false, "");
    putchar('\n');
    wrap(&p, 0, 0, c->text, false, "");
    printf("\nflags:\n");
    for (const rt_flag *f = c->flags; f->name; f++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", f->name, f->metavar ? " " : "", f->metavar ? f->metavar : "");
        rt_page_row(&p, FLAG_COLUMN, left, f->help);
    }
    rt_page_row(&p, FLAG_COLUMN, help_flag.name, help_flag.help);
    printf("\nexample:\n");
    for (const char *line = c->example; line;) {
        char one[256];
        const char *end = strchr(line, '\n');
        snprintf(one, sizeof one, "%.*s", end ? (int)(end - line) : (int)strlen(line), line);
        printf("  ");
        wrap(&p, 2, 6, one + strspn(one, " "), true, " \\");
        line = end ? end + 1 : NULL;
    }
}

/* ---- JSON ---- */

/* What a flag takes, in whatever command, where its metavar ("on|off", "FILE") does not say: words, names of a table of
 * another room, and FILE where it also is a path. */
static const struct {
    const char *flag, *words;
    const char *const *(*names)(void);
} values[] = {
    { "--backend", "", rt_job_backend_names },
    { "--chat-template", "teacher student FILE", NULL },
    { "--device", "auto", rt_job_backend_names },
    { "--device-memory", "auto device managed", NULL },
    { "--divergence", "", rt_job_divergence_names },
    { "--dtype", "", rt_job_dtype_names },
    { "--kernels", "auto ptx ptx75 ptx80", NULL },
    { "--model", "FILE", NULL },
    { "--optimizer", "adamw adamw-bf16 adamw-8bit", NULL },
    { "--preset", "", rt_job_preset_names },
    { "--save-dtype", "f32 bf16 f16", NULL },
    { "--schedule", "", rt_job_schedule_names },
    { "--teacher-memory", "auto device host disk", NULL },
    { "--teacher-weights", "auto native bf16 fp8 fp8-native", NULL },
    { "--to", "hf safetensors gguf apr", NULL },
    { "--tokenizer", "FILE", NULL },
    { "--weights", "native bf16 fp8 fp8-native", NULL },
};

/* Appends the lower-case words of text to choices; true when one in capitals names a path. */
static bool take_words(json_t *choices, const char *text, const char *between)
{
    static const char *const paths[] = { "FILE", "DIR", "MODEL", "OUT", "PATH" };
    bool path = false;
    for (size_t n; *text; text += n + strspn(text + n, between)) {
        n = strcspn(text, between);
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
            path |= strlen(paths[i]) == n && strncmp(text, paths[i], n) == 0;
        if (islower((unsigned char)*text)) json_array_append_new(choices, json_stringn(text, n));
    }
    return path;
}

/* choices gets the words that the flag takes; true when it takes a path. */
static bool values_of(const rt_flag *f, json_t *choices)
{
    bool path = take_words(choices, f->metavar, "|");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (path || json_array_size(choices) || strcmp(f->name, values[i].flag) != 0) continue;
        for (const char *const *n = values[i].names ? values[i].names() : NULL; n && *n; n++)
            json_array_append_new(choices, json_string(*n));
        return take_words(choices, values[i].words, " ");
    }
    return path;
}

/* "count": of the setting where the flag is one, because settings are parsed by their own table and are lists here. */
static const char *kind_of(const rt_flag *f, char buf[16])
{
    static const char *const kinds[] = { "switch", "text", "count", "bytes", "whole", "real", "list" };
#define X(field, flag, kind, ...) #kind,
    static const char *const settings[] = { RT_SETTING_TABLE(X) };
#undef X
    rt_setting_id id = f->kind == RT_FLAG_LIST ? rt_setting_find(f->name) : RT_SETTING_COUNT_ALL;
    if (id == RT_SETTING_COUNT_ALL) return kinds[f->kind];
    snprintf(buf, 16, "%s", settings[id]);
    for (char *p = buf; *p; p++) *p = (char)tolower((unsigned char)*p);
    return buf;
}

static json_t *flag_json(const rt_flag *f)
{
    char buf[16];
    json_t *j = json_pack("{s:s, s:s, s:s?, s:s}", "name", f->name, "kind", kind_of(f, buf), "metavar", f->metavar,
                          "help", f->help);
    if (!j || !f->metavar) return j;
    json_t *choices = json_array();
    bool path = values_of(f, choices);
    if (path) json_object_set_new(j, "path", json_true());
    if (json_array_size(choices)) json_object_set(j, "choices", choices);
    json_decref(choices);
    return j;
}

int rt_help_json(const rt_command *c, rt_err *e)
{
    json_t *flags = json_array();
    for (const rt_flag *f = c->flags; f->name; f++) json_array_append_new(flags, flag_json(f));
    json_array_append_new(flags, flag_json(&help_flag));
    return rt_print_json(json_pack("{s:s, s:s, s:s, s:s, s:[i, i], s:o}", "name", c->name, "usage", c->usage, "text",
                                   c->text, "example", c->example, "arguments", (int)c->min_words,
                                   (int)(c->words ? c->max_words : 0), "flags", flags),
                         e);
}
