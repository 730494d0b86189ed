/* identity.h - what makes a model the one that a run was begun with: its values, and the files beside them that decide
 * what it computes and says.
 *
 * Owns: which parts there are, and the comparison of two records. A change of any of them is another model: a rope
 * base, an epsilon, an entry of the vocabulary, the chat template. */
#ifndef RT_JOB_IDENTITY_H
#define RT_JOB_IDENTITY_H

#include "base/json.h"
#include "format/model_file.h"

/* {"name", "family", "parameters", "content_hash", "files": {"config.json": hash, ...}}. files: configuration,
 * tokenizer and generation settings as they are read, "chat template" from wherever it was; of GGUF and APR, which hold
 * all that in one file, its "header", which is everything before the first tensor. *out is the caller's. */
int rt_identity_new(json_t **out, const rt_model_file *m, rt_pool *pool, rt_err *e);
/* The first part of which `now` has another: "values", or a name of files; null when there is none. *old: the record
 * `was` is of a time when there were no files in it. */
const char *rt_identity_differs(const json_t *was, const json_t *now, bool *old);

#endif
