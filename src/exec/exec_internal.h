/* exec_internal.h - shared by the files of this room only. */
#ifndef RT_EXEC_EXEC_INTERNAL_H
#define RT_EXEC_EXEC_INTERNAL_H

#include "exec/exec.h"

enum { RT_PLACE_ALIGN = 256, RT_GUARD_BYTES = 256, RT_GUARD_BYTE = 0xA5 };

/* One sealed program and how it lies in the arena. */
typedef struct rt_sealed {
    rt_plan *plan;                     /* lowered */
    const char **kernel;               /* (nops) static texts of the backend */
    const char **plain;                /* (nops) why plain kernels do it; null: they do not */
    rt_choice *choice;                 /* (nops) */
    uint32_t (*after)[RT_QUEUE_COUNT]; /* (nops) as in rt_bound_op */
    rt_life *life;                     /* (nacts) */
    uint64_t *place;                   /* (nacts) byte offset in the arena; UINT64_MAX: never used */
    uint64_t arena, peak;              /* bytes needed; bytes alive at the fullest op */
    uint32_t peak_op;
    rt_prog *prog;
} rt_sealed;

struct rt_exec {
    rt_dev *dev;
    rt_space *space;
    rt_seal_opts opts;
    rt_sealed *prog; /* (nprogs) */
    uint32_t nprogs;
    uint64_t *space_off;         /* (nbufs) byte offset of each buffer in the allocation of its class */
    rt_mem *mem[RT_CLASS_COUNT]; /* null where the class is empty, or is allocated nowhere */
    uint64_t bytes[RT_CLASS_COUNT];
    bool host;        /* the device's memory is the host's */
    rt_reader reader; /* of class DISK */
    rt_disk_fn disk;
    void *disk_ctx;
    uint32_t running;  /* 1 + the program that ran last; 0: none */
    rt_ticket reading; /* of the last read that was not waited for */
    rt_ticket last;    /* that the device gave */
    uint8_t *scratch;  /* RT_EXEC_SCRATCH bytes: poison and guard bands pass through it */
};
static inline bool rt_is_on_device(const rt_exec *x, rt_class c)
{
    return c != RT_CLASS_DISK && (c != RT_CLASS_HOST || x->host);
}
enum { RT_EXEC_SCRATCH = 1 << 16 };

/* lower.c: the ops as this device will run them. */
int rt_lower(rt_plan **out, rt_dev *d, const rt_plan *p, bool poison, rt_err *e);
/* Asks the backend about every op: its texts and choices (nops), scratch as one more activation each. */
int rt_lower_work(rt_plan *p, rt_dev *d, const char **kernel, const char **plain, rt_choice *choice, rt_err *e);

/* place.c: offsets of n buffers so that no two alive at once overlap. Pure. Returns the arena's size, UINT64_MAX on
 * overflow. scratch: (n) u32 for the order of placement. pad: bytes kept free on both sides of each. */
uint64_t rt_place(uint64_t *place, const uint64_t *bytes, const rt_life *life, uint32_t n, uint64_t pad, bool reuse,
                  uint32_t *scratch);

/* order.c: what each op of a placed program has to wait for in other queues. after (nops) is filled. */
void rt_order(const rt_exec *x, const rt_sealed *s, uint32_t (*after)[RT_QUEUE_COUNT]);

/* disk.c: the reader of class DISK. */
int rt_disk_read(void *ctx, uint64_t off, uint64_t bytes, void *to, rt_err *e);

/* bind.c: operands of the lowered plan of program i, with their memory. ops has nops entries. promised: nothing is
 * allocated yet, and the memory of what is there is RT_MEM_PROMISED. */
void rt_bind(const rt_exec *x, uint32_t program, bool promised, rt_bound_op *ops);

/* guard.c: bands around the buffers of the space, once; poison and bands of a program's activations, before it runs. */
int rt_guards_write(rt_exec *x, rt_err *e);
int rt_guards_begin(rt_exec *x, uint32_t program, rt_err *e);

#endif
