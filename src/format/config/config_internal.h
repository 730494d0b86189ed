/* config_internal.h - what the files that read and write config.json give one another: getters that name the file and
 * the key when something is wrong, and their parts. */
#ifndef RT_FORMAT_CONFIG_INTERNAL_H
#define RT_FORMAT_CONFIG_INTERNAL_H

#include "format/config/config.h"

#include <jansson.h>

/* Values are taken from `at`, the whole file or one object of it, which messages call `path` ("" for the file). Errors
 * are sticky: after the first one getters answer their fallback and change nothing. */
typedef struct rt_config_reader {
    const json_t *at;
    const char *path;  /* "rope_scaling." and the like */
    const char *where; /* the file */
    int rc;
    rt_err *e;
} rt_config_reader;

/* Keeps the first error; the file is put before the message. */
void rt_config_fault(rt_config_reader *r, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The key is not of the wanted kind. */
void rt_config_wrong_kind(rt_config_reader *r, const char *key, const char *wanted, const json_t *v);
const char *rt_config_kind(const json_t *v); /* "a list" */
/* The key is there and not null. */
bool rt_config_has(const rt_config_reader *r, const char *key);
/* A whole number from min to max; the fallback when the key is absent. Null is not a number. */
uint32_t rt_config_u32(rt_config_reader *r, const char *key, uint32_t min, uint32_t max, uint32_t fallback);
double rt_config_real(rt_config_reader *r, const char *key, double fallback);
bool rt_config_bool(rt_config_reader *r, const char *key, bool fallback);
/* The text, which lives as long as the file; the fallback when the key is absent or null. */
const char *rt_config_text(rt_config_reader *r, const char *key, const char *fallback);

/* config_rope.c: both forms, rope_theta with rope_scaling, and rope_parameters. */
void rt_config_read_rope(rt_config_reader *r, rt_model_config *c);
/* Sets the keys in root anew, in the form that is there, or in the old one; false when out of memory. */
bool rt_config_write_rope(const rt_model_config *c, json_t *root);

/* Sets key to value, which may be null (out of memory) and is consumed; false when out of memory. */
bool rt_config_put(json_t *object, const char *key, json_t *value);
/* The keys about windows and layers without rope, as the family has them (config_layers.c). */
void rt_config_read_layers(rt_config_reader *r, rt_model_config *c);
bool rt_config_write_layers(const rt_model_config *c, json_t *root);

#endif
