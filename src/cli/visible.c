/* visible.c - see visible.h. */
#include "cli/visible.h"

static void append(rt_str *out, const char *text, size_t len, bool one_line)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool c1 = c == 0xC2 && i + 1 < len && ((unsigned char)text[i + 1] & 0xE0) == 0x80;
        if (c1)
            rt_str_printf(out, "\\x%02x", (unsigned char)text[++i]);
        else if (one_line && (c == '\n' || c == '\t'))
            rt_str_append(out, c == '\n' ? "\\n" : "\\t");
        else if ((c < ' ' && c != '\n' && c != '\t') || c == 127)
            rt_str_printf(out, "\\x%02x", c);
        else
            rt_str_append_n(out, &text[i], 1);
    }
}

void rt_visible_append(rt_str *out, const char *text, size_t len) { append(out, text, len, false); }
void rt_visible_line(rt_str *out, const char *text, size_t len) { append(out, text, len, true); }
