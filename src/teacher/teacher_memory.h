/* teacher_memory.h - where the teacher's weights are: on the device, or beside it and copied in layer by layer.
 *
 * Owns: the words of --teacher-memory, what auto decided, and the sentence that says why. Matrices of layers are what
 * can be away; embedding, head and vectors are always on the device. What fits where is job/prepare/fit's. */
#ifndef RT_TEACHER_TEACHER_MEMORY_H
#define RT_TEACHER_TEACHER_MEMORY_H

#include "base/str.h"
#include "op/plan.h"

typedef enum rt_teacher_memory {
    RT_TEACHER_DEVICE,
    RT_TEACHER_HOST, /* pinned memory of the host */
    RT_TEACHER_DISK, /* the model's files, mapped */
    RT_TEACHER_AUTO
} rt_teacher_memory;
const char *rt_teacher_memory_name(rt_teacher_memory m); /* "host" */
bool rt_teacher_memory_parse(const char *name, rt_teacher_memory *out);
#define RT_TEACHER_MEMORY_WORDS "auto, device, host or disk"
/* The class of its matrices. */
rt_class rt_teacher_memory_class(rt_teacher_memory m);

typedef enum rt_memory_why {
    RT_MEMORY_UNSAID,  /* there is no teacher that is computed */
    RT_MEMORY_ASKED,   /* the settings say so */
    RT_MEMORY_FITS,    /* on the device, which has room */
    RT_MEMORY_NO_ROOM, /* beside the device, which has not */
    RT_MEMORY_NO_HOST  /* and the host has not either */
} rt_memory_why;
typedef struct rt_memory_choice {
    rt_teacher_memory memory; /* definite */
    rt_memory_why why;
    uint64_t device, limit;    /* the least that the run takes with the teacher on the device; what it may */
    uint64_t host, host_limit; /* NO_HOST: what the host would have to give, and can */
} rt_memory_choice;
/* "in host memory: on the device the run would take ..."; nothing where all of it is on the device by itself. */
void rt_memory_say(rt_str *out, const rt_memory_choice *c);

#endif
