/* visible.h - text from strangers on a terminal: nothing in it that the terminal would act on. */
#ifndef RT_CLI_VISIBLE_H
#define RT_CLI_VISIBLE_H

#include "base/str.h"

/* Appends text with its control characters as \x1b; newlines and tabs stay. */
void rt_visible_append(rt_str *out, const char *text, size_t len);
/* The same in one line: newlines and tabs as \n and \t. */
void rt_visible_line(rt_str *out, const char *text, size_t len);

#endif
