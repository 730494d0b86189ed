/* inspect.h - the facts that `retort inspect` prints, gathered once and shown as text or as JSON. */
#ifndef RT_CLI_INSPECT_H
#define RT_CLI_INSPECT_H

#include "format/model_file.h"

typedef struct rt_inspect_dtype {
    const char *name;
    uint32_t tensors;
    uint64_t elems, bytes;
} rt_inspect_dtype;
enum { RT_INSPECT_DTYPES = RT_DTYPE_COUNT + 2 }; /* APR's own types too */

typedef struct rt_inspect {
    const rt_model_file *m;
    uint64_t bytes; /* of all files that hold tensors */
    uint64_t tensor_bytes;
    uint64_t parameters, outside;              /* outside: without embedding and head */
    rt_inspect_dtype dtype[RT_INSPECT_DTYPES]; /* most bytes first; ends with a null name */
    char problem[500]; /* why this is not a model that can be run or converted; empty when it is one */
    /* Tokenizer. */
    bool has_tokenizer;
    const char *tokenizer_from; /* "tokenizer.json", "GGUF keys" */
    rt_str tokenizer;           /* one line, or why it cannot be used */
    bool tokenizer_usable;
    uint32_t tokenizer_size;
    char tokenizer_hash[33];
    /* Hashes; empty when not asked for. */
    char file_hash[33], content_hash[33];
    rt_hash128 *each;    /* (tensor_count) of the values, or null */
    bool footer_checked; /* APR: the CRC at the end is right */
    bool tensors;        /* list them */
} rt_inspect;

const char *rt_inspect_dtype_name(const rt_tensor *t);
void rt_inspect_print(const rt_inspect *f);
struct json_t;
struct json_t *rt_inspect_json(const rt_inspect *f); /* null when out of memory */

#endif
