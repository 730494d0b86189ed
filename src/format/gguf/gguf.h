/* gguf.h - GGUF files: read, laid out; and what the files of this room give one another: parsed metadata, the number of
 * each type, rope factors.
 *
 * A key's value stays in the mapped file; nothing is copied until somebody asks for it. All counts were checked against
 * the bytes of the file, so whoever walks a value needs no further checks. */
#ifndef RT_FORMAT_GGUF_H
#define RT_FORMAT_GGUF_H

#include "format/tensor/model_out.h"

bool rt_gguf_is(const rt_map *map);
/* part: mapped already. Tensor names become canonical. */
int rt_gguf_read(rt_model_file *m, uint32_t part, rt_err *e);
int rt_gguf_layout(const rt_model_out *o, rt_arena *a, rt_file_layout *l, rt_err *e);
/* The adapter of m as llama.cpp loads it: for each of its matrices lora_a (rank,C) and lora_b (R,rank) of dtype d, in
 * the order of m's tensors, with alpha for all of them. */
int rt_gguf_adapter_layout(const rt_model_file *m, const char *path, rt_dtype d, double alpha, rt_arena *a,
                           rt_file_layout *l, rt_err *e);

/* ---- inside the room ---- */

/* number in the file, name, bytes; 0: no fixed size */
#define RT_GGUF_TYPE_LIST(X)                                                                                           \
    X(U8, 0, "u8", 1)                                                                                                  \
    X(I8, 1, "i8", 1)                                                                                                  \
    X(U16, 2, "u16", 2)                                                                                                \
    X(I16, 3, "i16", 2)                                                                                                \
    X(U32, 4, "u32", 4)                                                                                                \
    X(I32, 5, "i32", 4)                                                                                                \
    X(F32, 6, "f32", 4)                                                                                                \
    X(BOOL, 7, "bool", 1)                                                                                              \
    X(STRING, 8, "string", 0)                                                                                          \
    X(ARRAY, 9, "array", 0)                                                                                            \
    X(U64, 10, "u64", 8)                                                                                               \
    X(I64, 11, "i64", 8)                                                                                               \
    X(F64, 12, "f64", 8)

typedef enum rt_gguf_type {
#define X(name, number, text, bytes) RT_GGUF_##name = (number),
    RT_GGUF_TYPE_LIST(X)
#undef X
        RT_GGUF_TYPE_COUNT
} rt_gguf_type;

typedef struct rt_gguf_value_type {
    const char *name;
    uint32_t bytes; /* 0: no fixed size */
} rt_gguf_value_type;
extern const rt_gguf_value_type rt_gguf_types[RT_GGUF_TYPE_COUNT];

enum { RT_GGUF_ALIGNMENT = 32, RT_GGUF_VERSION = 3, RT_GGUF_MAX_DEPTH = 4, RT_GGUF_MAX_KEYS = 1 << 20 };
/* Under which the reader keeps what other formats' files have and GGUF has no key for. */
#define RT_GGUF_KEY_CONFIG "retort.config"
#define RT_GGUF_KEY_TOKENIZER_CONFIG "retort.tokenizer_config"
#define RT_GGUF_KEY_GENERATION_CONFIG "retort.generation_config"
#define RT_GGUF_ROPE_FREQS "rope_freqs.weight"

typedef struct rt_gguf_key {
    rt_span name;
    rt_gguf_type type;
    rt_gguf_type elem;   /* of an array */
    uint64_t count;      /* of an array; 1 otherwise */
    const uint8_t *data; /* the first element */
} rt_gguf_key;

typedef struct rt_gguf {
    const char *path; /* for messages */
    rt_map map;       /* a copy: the model's list of parts may move */
    uint64_t tensor_count;
    rt_gguf_key *keys; /* (key_count), sorted by name */
    uint32_t key_count, key_cap;
    uint32_t alignment;
    uint64_t infos; /* where the tensors' descriptions begin */
} rt_gguf;

/* ---- metadata (gguf_kv.c) ---- */

/* Parses the header and all keys of a mapped file. Free with rt_gguf_free, whatever the answer. */
int rt_gguf_parse(rt_gguf *g, const rt_map *map, const char *path, rt_err *e);
void rt_gguf_free(rt_gguf *g);                                       /* accepts null and zeroes */
const rt_gguf_key *rt_gguf_find(const rt_gguf *g, const char *name); /* null when absent */
int rt_gguf_compare(rt_span a, rt_span b);                           /* names in the order of keys */

/* What is left of a file, read from its front: false, and nothing taken, when it is too short. */
typedef struct rt_gguf_cursor {
    const uint8_t *p, *end;
} rt_gguf_cursor;
bool rt_gguf_take(rt_gguf_cursor *c, void *out, uint64_t bytes);
bool rt_gguf_take_string(rt_gguf_cursor *c, rt_span *out);

/* Each leaves *out as it is when the key is absent, and refuses a value of another kind (RT_FORMAT). A whole number may
 * have any integer type that holds it; where one stands per layer, all must be equal (RT_UNSUPPORTED). An f32 is read
 * as the shortest decimal that rounds to it, which is what its writer had: 1e-5, not 9.99999975e-6. */
int rt_gguf_get_u32(const rt_gguf *g, const char *name, uint32_t *out, rt_err *e);
int rt_gguf_get_f64(const rt_gguf *g, const char *name, double *out, rt_err *e);
int rt_gguf_get_bool(const rt_gguf *g, const char *name, bool *out, rt_err *e);
int rt_gguf_get_string(const rt_gguf *g, const char *name, rt_span *out, rt_err *e);
/* Spans over an array of strings, in a. *count is 0 when the key is absent. */
int rt_gguf_get_strings(const rt_gguf *g, const char *name, const rt_span **out, uint32_t *count, rt_arena *a,
                        rt_err *e);
/* The array's elements, 4 bytes each, copied to be aligned: f32, or i32 and u32. Null when the key is absent. */
int rt_gguf_get_f32s(const rt_gguf *g, const char *name, const float **out, uint64_t *count, rt_arena *a, rt_err *e);
int rt_gguf_get_i32s(const rt_gguf *g, const char *name, const int32_t **out, uint64_t *count, rt_arena *a, rt_err *e);

/* ---- tensor types (gguf_types.c) ---- */

/* The number of a type in the file; -1 when GGUF has none. */
int rt_gguf_number_of(rt_dtype d);
/* false when it is not one that is read; *name is then its name, or null when it is unknown altogether. */
bool rt_gguf_dtype_of(uint32_t number, rt_dtype *out, const char **name);

/* ---- what the keys mean ---- */

/* factors (D/2) or null: what rope_freqs.weight holds. Sets m->has_config and m->config (gguf_config.c). */
int rt_gguf_read_config(rt_model_file *m, const rt_gguf *g, const float *factors, uint64_t factor_count, rt_err *e);
/* m->text (gguf_text.c). */
int rt_gguf_read_text(rt_model_file *m, const rt_gguf *g, rt_err *e);

/* The factor on cos and sin that yarn has when nobody sets one (gguf_rope_factors.c). */
double rt_gguf_yarn_default(double factor);
/* factors (D/2) by which llama3 scaling divides the frequencies; kind is RT_ROPE_LLAMA3. */
void rt_gguf_rope_factors(float *factors, uint32_t D, const rt_rope_scaling *s);
/* Whether s, of which theta is known, has these factors (D/2). */
bool rt_gguf_rope_fits(const float *factors, uint32_t D, const rt_rope_scaling *s);
/* Finds the llama3 parameters that give these factors (D/2); s->theta is set. false when none do. All factors 1 is
 * plain. */
bool rt_gguf_rope_recover(rt_rope_scaling *s, const float *factors, uint32_t D);

/* ---- writing ---- */

static inline void rt_gguf_append(rt_str *s, const void *data, size_t bytes) { rt_str_append_n(s, data, bytes); }
/* Appends keys to out and counts them in *count (gguf_keys_write.c). */
void rt_gguf_write_adapter_keys(const rt_model_file *m, double alpha, rt_str *out, uint64_t *count);
int rt_gguf_write_keys(const rt_model_out *o, rt_str *out, uint64_t *count, rt_err *e);

#endif
