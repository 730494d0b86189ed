/* model_arg.h - what the commands over models share: where models are looked for, what an output is to be, and the
 * reasons to refuse it before any work is done. */
#ifndef RT_CLI_MODEL_ARG_H
#define RT_CLI_MODEL_ARG_H

#include "format/model_write.h"

/* HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME of this process; an empty variable is an absent one. */
rt_hub_env rt_hub_env_get(void);

/* to: the value of --to, or null: by the suffix of path (.gguf, .apr, .safetensors), else other. RT_USAGE with the
 * nearest name. */
int rt_output_format(rt_container *out, const char *to, const char *path, rt_container other, rt_err *e);
/* The value of --dtype; RT_USAGE with the nearest name and the list. */
int rt_mix_arg(const rt_mix **out, const char *command, const char *name, rt_err *e);

/* RT_INVALID when path is there already and force is not given, when it is a directory where a file is to be or the
 * other way round, or when the model in (may be null) is, or lies in, what would be replaced. */
int rt_output_allowed(const char *path, rt_container to, bool force, const rt_model_file *in, rt_err *e);
/* RT_IO when the file system of path has less room than bytes, those of the tensors alone: what is refused would not
 * have fitted. */
int rt_output_fits(const char *path, uint64_t bytes, rt_err *e);

/* "494 M", "7.62 B", "98304": parameters for a person. buf needs 32 bytes; returns buf. */
char *rt_format_params(char *buf, uint64_t n);

/* " path" and more behind it, quoted where a shell would need it: for commands that a person may copy. A slash at the
 * path's end is left out. */
void rt_print_word(const char *path, const char *more);

/* --threads, where 0 means all that this process may use. */
int rt_pool_for(rt_pool **out, uint32_t threads, rt_err *e);

/* Null for null. Names come from files and from the command line: bytes that are no UTF-8 become question marks. */
struct json_t;
struct json_t *rt_json_text(const char *text);
/* A number, or its digits as text where jansson's numbers end. */
struct json_t *rt_json_u64(uint64_t v);

#endif
