/* teaching.h - a model that says what it thinks of other people's tokens: the teacher of a run elsewhere.
 *
 * Owns: the description of the teacher that such a run needs, and the programs that answer its questions, which are
 * those with which `retort cache` asks a teacher here, sealed for the shape that is asked for and kept until another
 * one is. So what comes back is to the bit what the model says here. Messages as bytes are teacher/remote/wire.h; HTTP,
 * queues and threads are the caller's. All of it in the thread that has the speaker's device. */
#ifndef RT_JOB_TEACHING_H
#define RT_JOB_TEACHING_H

#include "job/speaker.h"

typedef struct rt_teaching rt_teaching;
/* m, speaker and env outlive it. */
int rt_teaching_new(rt_teaching **out, const rt_model_file *m, const rt_speaker *s, const rt_job_env *env, rt_err *e);
void rt_teaching_free(rt_teaching *t); /* accepts null; after rt_teaching_unseal */
/* Its programs go; before the speaker is unsealed. */
void rt_teaching_unseal(rt_teaching *t);

/* Appends the description of the teacher. hidden: with its head, for runs that read hidden states. The first one hashes
 * the model. */
int rt_teaching_describe(rt_teaching *t, bool hidden, rt_str *out, rt_err *e);
/* Appends the answer to a question (len bytes, aligned as rt_alloc's). RT_INVALID: it is none, or of what this teacher
 * has not. RT_NOT_FOUND: it is of another teacher. RT_NOMEM: the device has no room for the programs. */
int rt_teaching_answer(rt_teaching *t, const void *question, size_t len, rt_str *out, rt_err *e);

#endif
