/* json_text.h - JSON written straight into a string: for documents of hundreds of thousands of tokens, where a tree of
 * values would cost more than the text.
 *
 * Owns: escaping and numbers. Reading is jansson's. */
#ifndef RT_FORMAT_JSON_TEXT_H
#define RT_FORMAT_JSON_TEXT_H

#include "base/str.h"

/* Appends text in quotes; false, and nothing appended, when it is not valid UTF-8. */
bool rt_json_put_text(rt_str *s, const char *text, size_t len);
/* Appends the shortest number that reads back as the same double, or as the same float. Finite values only. */
void rt_json_put_double(rt_str *s, double x);
void rt_json_put_float(rt_str *s, float x);
/* A comma unless the text ends with a bracket that was just opened, then "key":. The key is plain ASCII. */
void rt_json_put_key(rt_str *s, const char *key);
/* Length of the longest prefix that is valid UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
size_t rt_json_utf8(const char *text, size_t len);

#endif
