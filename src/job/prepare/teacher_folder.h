/* teacher_folder.h - what stands in for a teacher where its files are not: a folder that opens as a model as far as
 * configuration, tokenizer and template go.
 *
 * Owns: what is in such a folder. A cache keeps one, and a server sends one. */
#ifndef RT_JOB_TEACHER_FOLDER_H
#define RT_JOB_TEACHER_FOLDER_H

#include "job/prepare/inputs.h"

/* Into a folder that is there: configuration, tokenizer, template, and of the tensors the last norm; hidden: the head
 * instead, with which a run makes logits of hidden states. What it cannot have is said in notes. */
int rt_teacher_folder_write(const rt_model_file *m, bool hidden, const char *folder, rt_notes *notes, rt_err *e);

#endif
