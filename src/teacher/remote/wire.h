/* wire.h - what is asked of a teacher behind HTTP and what it says, as bytes: the format of `retort serve`, which
 * docs/serving.md writes down.
 *
 * Owns: both directions of both messages, their checks, and the description of a teacher. Nothing that comes from a
 * socket is trusted: a message is read completely or refused, and every number in it is in range when it was read. Who
 * computes, and who sends, is others'. Numbers have their lowest byte first. */
#ifndef RT_TEACHER_REMOTE_WIRE_H
#define RT_TEACHER_REMOTE_WIRE_H

#include "base/json.h"
#include "base/mem.h"
#include "teacher/cache/cache.h"

#define RT_WIRE_TYPE "application/octet-stream"
#define RT_WIRE_PATH_TEACHER "/teacher"         /* GET: a description; ?keep=hidden: with the head */
#define RT_WIRE_PATH_ANSWERS "/teacher/answers" /* POST: a question; the reply is an answer */

/* ---- a question: rows of tokens, and which positions are asked for ---- */

enum { RT_WIRE_POSITIONS = 1 << 20, RT_WIRE_WIDEST = 1 << 22 }; /* of one question; ids of a vocabulary */

typedef struct rt_wire_question {
    rt_hash128 teacher; /* rt_wire_teacher_hash of the one that is meant */
    rt_keep keep;       /* of positions that are trained on */
    bool held;     /* the positions are held out: top-k at temperature 1, and at `temperature` if that is another */
    uint32_t B, T; /* rows, positions of a row */
    uint32_t n, held_n; /* k or draws; 0 of hidden states */
    double temperature;
    uint64_t seed;                    /* of draws */
    const int32_t *ids, *start;       /* (B*T) as in rt_source_rows */
    uint32_t count;                   /* of positions that are asked for, */
    const int32_t *position, *target; /* (count) which, in B*T, and their targets */
    const uint32_t *key;              /* (count,2) what draws depend on besides the seed */
    uint32_t mask_words;
    const uint32_t *mask; /* (mask_words) the ids that count; 0: all */
} rt_wire_question;

/* Appends. */
void rt_wire_put_question(const rt_wire_question *q, rt_str *out);
/* q points into data (len), which is aligned as memory of rt_alloc is. RT_INVALID says what is wrong. */
int rt_wire_get_question(rt_wire_question *q, const void *data, size_t len, rt_err *e);
/* Every id is below vocab, and no list is longer. */
int rt_wire_check_question(const rt_wire_question *q, uint32_t vocab, rt_err *e);

/* ---- an answer ---- */

enum { RT_WIRE_LISTS = 2 };
/* Of one use (count,n). Arrays that a list does not have are null. */
typedef struct rt_wire_list {
    uint32_t n;
    int32_t *id;
    float *logp;
    float *rest;        /* (count) top-k */
    float *entropy;     /* (count) draws */
    float *target_logp; /* (count) held out, at temperature 1 */
} rt_wire_list;
typedef struct rt_wire_answer {
    uint32_t count, lists; /* lists 0: hidden states */
    rt_wire_list list[RT_WIRE_LISTS];
    uint32_t row; /* bytes of a hidden state */
    void *hidden; /* (count, row) */
} rt_wire_answer;

/* What the answer to a question consists of, in arrays of a's own; row: bytes of a hidden state. RT_INVALID where it
 * would be longer than RT_WIRE_MOST. */
#define RT_WIRE_MOST ((uint64_t)1 << 30)
int rt_wire_answer_new(rt_wire_answer *a, const rt_wire_question *q, uint32_t row, rt_err *e);
/* The same over arrays of the caller's, which are not freed: of every list all that there may be. */
int rt_wire_answer_over(rt_wire_answer *a, const rt_wire_question *q, uint32_t row,
                        const rt_wire_list lists[RT_WIRE_LISTS], void *hidden, rt_err *e);
void rt_wire_answer_free(rt_wire_answer *a); /* accepts zeroes */

void rt_wire_put_answer(const rt_wire_answer *a, const rt_hash128 *teacher, rt_str *out);
/* Into the arrays of a, which rt_wire_answer_new has made for the question. RT_INVALID: it is of another teacher.
 * RT_FORMAT: it is no answer to this question, with the reason. vocab: every id is below it. */
int rt_wire_get_answer(rt_wire_answer *a, const rt_wire_question *q, uint32_t vocab, const void *data, size_t len,
                       rt_err *e);

/* ---- a teacher ---- */

/* What a server says of its teacher: an object, with the files that stand for the model (configuration, tokenizer,
 * template, and of its tensors the last norm or the head), as a cache keeps them.
 * {"format": "retort teacher", "version": 1, "teacher": identity, "act": "f32", "positions": asked for at once,
 *  "vocab", "width", "files": [{"name", "bytes", "hash"}]} */
typedef struct rt_wire_file {
    const char *name;
    rt_span bytes;
} rt_wire_file;
enum { RT_WIRE_FILES = 64 };
typedef struct rt_wire_teacher {
    json_t *about; /* the caller's */
    rt_wire_file file[RT_WIRE_FILES];
    uint32_t count;
    uint32_t vocab, width, positions;
    rt_dtype act;
} rt_wire_teacher;
/* about without "format", "version", "files", which this adds. False where memory was refused. */
bool rt_wire_put_teacher(json_t *about, const rt_wire_file *files, uint32_t count, rt_str *out);
/* Files point into data. RT_FORMAT with the reason. Freed by json_decref of about. */
int rt_wire_get_teacher(rt_wire_teacher *t, const void *data, size_t len, rt_err *e);
/* Of "teacher" in about: equal for equal identities. False where memory was refused. */
bool rt_wire_teacher_hash(const json_t *about, rt_hash128 *out);

#endif
