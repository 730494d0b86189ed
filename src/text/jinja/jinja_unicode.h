/* jinja_unicode.h - code points as Python's str sees them: classes and case. Internal to the jinja files. */
#ifndef RT_JINJA_JINJA_UNICODE_H
#define RT_JINJA_JINJA_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

bool rt_ju_space(uint32_t c);
bool rt_ju_printable(uint32_t c); /* repr() escapes the others */
bool rt_ju_alpha(uint32_t c);
bool rt_ju_alnum(uint32_t c);
bool rt_ju_decimal(uint32_t c);
bool rt_ju_digit(uint32_t c);
bool rt_ju_lower(uint32_t c);
bool rt_ju_upper(uint32_t c);
bool rt_ju_titled(uint32_t c);    /* a title case letter, such as U+01C5 */
bool rt_ju_ignorable(uint32_t c); /* has no say in whether a sigma ends its word */
bool rt_ju_name_start(uint32_t c);
bool rt_ju_name_part(uint32_t c);

/* The case mappings of one code point: up to 3 code points; returns how many. */
uint32_t rt_ju_to_lower(uint32_t c, uint32_t out[3]);
uint32_t rt_ju_to_upper(uint32_t c, uint32_t out[3]);
uint32_t rt_ju_to_title(uint32_t c, uint32_t out[3]);
uint32_t rt_ju_fold(uint32_t c, uint32_t out[3]);

#endif
