/* vllm.h - a question to a teacher in the words of vLLM's server, and its answer.
 *
 * POST /v1/completions with "prompt_logprobs": for every token of a prompt the likeliest ids that could have stood
 * there and the one that does. So a question becomes a list of prompts, one for each document of which positions are
 * asked for; an answer has top-k at temperature 1, and the rest is what is not listed. Nothing else can be had: no
 * other temperature, no draws, no hidden states, no mass beyond what the server lists (its --max-logprobs).
 *
 * Owns: this JSON. docs/teachers.md says which versions it was looked up in. */
#ifndef RT_TEACHER_REMOTE_VLLM_H
#define RT_TEACHER_REMOTE_VLLM_H

#include "teacher/remote/wire.h"

#define RT_VLLM_TYPE "application/json"
#define RT_VLLM_PATH_MODELS "/v1/models"
#define RT_VLLM_PATH_ANSWERS "/v1/completions"

/* Of GET /v1/models the model of this name, or, where it is null, the only one: *name in a, and how many tokens it
 * reads; 0: not said. RT_FORMAT: it is no such list. RT_INVALID: there is no such model, or there are several. */
int rt_vllm_get_model(const char **name, uint32_t *context, const char *want, rt_arena *a, const void *data, size_t len,
                      rt_err *e);

/* Appends the body of a request. */
void rt_vllm_put_question(const rt_wire_question *q, const char *model, rt_str *out);

/* What is known of ids here: the text of one (false: it has none that can be compared), and whether it counts. */
typedef struct rt_vllm_ids {
    bool (*text)(void *ctx, uint32_t id, rt_span *out);
    void *ctx;
    uint32_t vocab;
} rt_vllm_ids;
/* Into a, which rt_wire_answer_over has made for the question. Ids that do not count are not listed, and their mass is
 * part of the rest. RT_FORMAT: it is no answer to this question, with the reason. RT_INVALID: a token has another text
 * there than here, so the vocabulary is another. */
int rt_vllm_get_answer(rt_wire_answer *a, const rt_wire_question *q, const rt_vllm_ids *ids, const void *data,
                       size_t len, rt_err *e);

#endif
