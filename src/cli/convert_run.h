/* convert_run.h - the work behind `retort convert`, `retort quantize` and `retort init --from`: one request, carried
 * out and reported. */
#ifndef RT_CLI_CONVERT_RUN_H
#define RT_CLI_CONVERT_RUN_H

#include "cli/text_arg.h"
#include "format/convert.h"

typedef struct rt_convert_request {
    const char *command; /* "convert" */
    const char *in, *out;
    const char *to, *dtype; /* of --to and --dtype; may be null */
    rt_container other;     /* the format of an output whose name does not tell */
    const char *layers;     /* "0,2,4-7" of the input; null: all */
    uint64_t shard_bytes;
    uint32_t threads;
    bool quantise; /* every tensor is reported, not only those that changed */
    bool force, no_tokenizer, json;
    bool modelfile; /* beside a GGUF file with a tokenizer: NAME.Modelfile, for Ollama */
} rt_convert_request;

/* What stands beside a GGUF file; text empty: nothing. */
typedef struct rt_convert_modelfile {
    char *path; /* null: none is written */
    rt_str text;
    const char *family; /* of the chat template; null: not one that can be written out */
    bool chat;          /* there is a chat template */
} rt_convert_modelfile;

int rt_convert_command(const rt_convert_request *r, rt_err *e);

/* convert_print.c */
void rt_convert_print(const rt_convert *v, const rt_convert_request *r, const rt_convert_modelfile *m,
                      const rt_text_notes *notes);
struct json_t;
struct json_t *rt_convert_json(const rt_convert *v, const rt_convert_request *r, const rt_convert_modelfile *m,
                               const rt_text_notes *notes);

#endif
