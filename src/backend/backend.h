/* backend.h - the seam: what the house asks of a device, and nothing more.
 *
 * Owns: the struct of functions that a backend fills, device memory handles, bound ops, tickets. A backend says what
 * it can do (`supports`), fixes everything at `seal`, and then only runs. `copy` and `run` are done in order and return
 * a ticket; `wait` takes one. Devices belong to one host thread at a time. What one backend alone can be told is in its
 * own table of options (options.h); nothing here names a backend. */
#ifndef RT_BACKEND_BACKEND_H
#define RT_BACKEND_BACKEND_H

#include "backend/options.h"
#include "backend/peers.h"
#include "op/plan.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct rt_backend rt_backend;
typedef struct rt_dev rt_dev;   /* an open device; each backend's own struct begins with this */
typedef struct rt_mem rt_mem;   /* one allocation on it */
typedef struct rt_prog rt_prog; /* one sealed program */
typedef uint64_t rt_ticket;     /* increases with every copy and run of a device; 0 is always done */

struct rt_dev {
    const rt_backend *api;
    uint32_t index; /* among those of its backend */
};

typedef enum rt_mem_kind { RT_MEM_DEVICE, RT_MEM_HOST_PINNED, RT_MEM_MANAGED } rt_mem_kind;

typedef struct rt_dev_info {
    char name[96];                      /* "AMD EPYC 9474F, 2 threads, avx512" */
    char detail[400];                   /* library versions and the like */
    char warning[160];                  /* why it is slower than it could be, and what to do; empty: it is not */
    uint64_t memory_total, memory_free; /* bytes; free: what a run may take */
    uint64_t head_bytes;                /* of logits that pay to have at once; 0: what a CPU's cache wants */
    /* Of an open device that loads code: what that took of its memory, and whether any was loaded after seal. */
    uint64_t context_bytes, module_bytes;
    uint32_t modules, late_loads;
    /* Of an open device with memory of its own: how much less of it is free than when it was opened, by whatever
     * program, as the driver says; and what mem_new has handed out of it. 0: not known. */
    uint64_t taken_bytes, own_bytes;
    char ranks[300];    /* how it does what ranks do together; empty: as the host does */
    char tuning[400];   /* what was chosen by timing, in a sentence; empty: nothing */
    bool host;          /* its memory is that of the process */
    bool software;      /* it computes on the host's CPU, as a driver that stands in for a GPU does */
    uint32_t positions; /* of a micro-batch, beyond which nothing is gained; 0: what a CPU needs */
    /* FLOPs of a GEMM in the time that a byte takes to move, and an op to begin: plans are compared by them, not timed;
     * 0: those of a CPU. */
    double byte_flops, op_flops;
    double host_byte_flops; /* those in the time that a byte takes from the host's memory */
    double fp8_cost; /* time of a GEMM in e4m3 beside one in bf16; 0: no less, so nobody is better off with e4m3 */
} rt_dev_info;

/* What a backend decided about an op when it was asked what the op needs, in words of its own. Seal hands it back with
 * the bound op, so that nothing is decided twice. Zeroes: nothing was. What it points to is kept by the device. */
typedef struct rt_choice {
    uint64_t words[12];
} rt_choice;

/* What an op costs a backend besides its operands. */
typedef struct rt_need {
    uint64_t work_bytes; /* scratch while the op runs, placed in the arena, aligned to 256 */
    bool work_stays;    /* the backend ends the op later, maybe with others: its scratch stays until the program ends */
    const char *kernel; /* text for the plan printer, kept by the device: "sgemm tiles 512x512, q4_k" */
    const char *plain;  /* why plain kernels do it, which are slower than others of the backend; static; null: not so */
    char why_not[160];  /* when unsupported: the reason */
    int failed;         /* when it could not be found out: the status, for want of memory say */
    uint32_t recast;    /* when unsupported, 1 + a slot that would have to be of another dtype; 0: none helps */
    rt_dtype recast_to; /* that dtype: seal dequantises or casts the operand into scratch and asks again */
    rt_choice choice;   /* when supported: as it is wanted back */
} rt_need;

/* Bytes that are in no memory: [off, off + bytes) of them into to, when a copy wants them, in any thread but in one at
 * a time. */
typedef struct rt_reader {
    int (*read)(void *ctx, uint64_t off, uint64_t bytes, void *to, rt_err *e);
    void *ctx;
} rt_reader;

/* An operand with its place in memory. */
typedef struct rt_operand {
    rt_mem *mem;             /* null: absent, or */
    const rt_reader *reader; /* not in memory (x of a copy alone), and off counts its bytes */
    uint64_t off;            /* bytes from the start of mem to element (0,0) */
    rt_dtype dtype;
    uint32_t rows, cols;
    uint64_t stride; /* elements */
} rt_operand;

typedef struct rt_bound_op {
    rt_op_kind kind;
    rt_queue queue;
    uint32_t acc; /* bit i: slot i is += */
    /* Of every other queue, 1 + the last op that has to be done before this one begins; 0: none. */
    uint32_t after[RT_QUEUE_COUNT];
    uint32_t nslots;
    rt_operand slot[RT_MAX_SLOTS];
    rt_operand work; /* u8, without gaps, at least as many bytes as the op asked for */
    rt_args args;
    rt_choice choice;      /* of the backend, from its rt_need */
    const rt_peers *peers; /* of an op that ranks do together; null: there is one rank */
} rt_bound_op;

/* Stands for memory that is placed but not allocated yet, in the operands that `prepare` sees. */
#define RT_MEM_PROMISED ((rt_mem *)(uintptr_t)1)

/* To the device: what host holds has been taken when copy returns. From it: host is filled when its ticket, or a later
 * one, has been waited for, and has to be there until then; without a ticket, when copy returns. */
typedef struct rt_copy {
    rt_mem *mem;
    uint64_t off, bytes;
    void *host;
    bool to_device;
} rt_copy;

/* Of a run whose copy queue is beside the other: seconds from begin to end, those in which something was copied, those
 * in which the compute queue waited for it. */
typedef struct rt_queue_times {
    double total, copy, waited;
} rt_queue_times;

struct rt_backend {
    const char *name;
    /* `copy` and `run` are enqueued and return before they are done, so the host has work to do meanwhile. false: they
     * are done when they return. */
    bool async;
    bool alike;  /* its devices are several of a kind, of which ranks on one host take one each */
    bool queues; /* ops of the copy queue run beside those of the compute queue; else all run in order */
    const rt_dev_option_info *options; /* that it takes; null: none */
    /* Fills up to cap infos and returns how many devices there are; with none, says why in `why` (160 bytes). */
    int (*probe)(const rt_dev_opts *o, rt_dev_info *out, int cap, char *why);
    int (*open)(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e);
    void (*close)(rt_dev *d); /* accepts null */
    int (*info)(rt_dev *d, rt_dev_info *out, rt_err *e);
    /* The storage dtypes that suit the device; null: f32. */
    const rt_policy *(*policy)(rt_dev *d);
    int (*mem_new)(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e);
    void (*mem_free)(rt_dev *d, rt_mem *m); /* accepts null */
    /* Tickets are for those who ask for one: t may be null here and in `run`. */
    int (*copy)(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e);
    /* true: `need` is filled. false: need->why_not says why; seal may then lower the op. */
    bool (*supports)(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need);
    /* The ranks that will run programs together, each with a device of this backend that is open: every one of them
     * calls it, once, before such a program is sealed, and all come to the same verdict. They outlive the device. Null:
     * nothing is settled ahead. */
    int (*meet)(rt_dev *d, const rt_peers *p, rt_err *e);
    /* Loads the code that running these ops will need, before memory is allocated for them, so that what is left for
     * the run is known. Operands have their offsets and shapes; their memory is RT_MEM_PROMISED. Null: nothing to load.
     */
    int (*prepare)(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_err *e);
    /* Resolves everything that running needs. ops is copied. */
    int (*seal)(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e);
    int (*run)(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e);
    int (*wait)(rt_dev *d, rt_ticket t, rt_err *e);
    /* How long a run took by the device's own clock, once it is done and while it is one of the last few. Null: it has
     * none, and whoever wants to know waits and looks at the host's. */
    double (*seconds)(rt_dev *d, rt_ticket t);
    /* A run that tells its times, and is done when this returns. RT_UNSUPPORTED where options keep queues from running
     * side by side. Null: `queues` is false. */
    int (*queue_times)(rt_dev *d, rt_prog *g, rt_queue_times *out, rt_err *e);
    void (*prog_free)(rt_dev *d, rt_prog *g); /* accepts null */
    /* What decides bits besides the plan: ISA, library versions. Enters the program hash. */
    void (*identity)(rt_dev *d, rt_str *out);
    /* Choices that were made by timing, which no other run could make again to the bit: written to a file that is kept
     * with a run (none is written when there are none), and read by the device that resumes it, before anything is
     * sealed. Null: nothing is chosen so. */
    int (*choices_write)(rt_dev *d, const char *path, rt_err *e);
    int (*choices_read)(rt_dev *d, const char *path, rt_err *e);
};

/* ---- registry.c: the only file of this room that names a concrete backend ---- */
const rt_backend *const *rt_backends(void); /* null-terminated */
/* RT_NO_BACKEND with the list of known names when there is none. */
int rt_backend_find(const char *name, const rt_backend **out, rt_err *e);
/* An option by name, of the first backend that takes it; null when none does. */
const rt_dev_option_info *rt_backend_option(const char *name);
/* Opens a device by what a user calls it: the name of a backend, and ":1" after it for its second device. Null or
 * "auto" is a ladder: the first device that can be opened of the first backend in the list that has one, and is no
 * software device; a device that is there and fails is an error all the same when options were given that its backend
 * alone takes. Where
 * devices are to be left out (options.h), one by name stands for the ladder from there on down. `why`
 * (RT_DEV_WHY bytes, may be null) then says why earlier ones were passed over; it is empty when none was. Options that
 * no backend takes, and values that one of them does not take, are refused (RT_USAGE), whichever is opened. */
enum { RT_DEV_WHY = 600 };
int rt_device_open(rt_dev **out, const char *name, const rt_dev_opts *o, char *why, rt_err *e);
const rt_policy *rt_device_policy(rt_dev *d);
/* The name by which the place-th of the ranks on one host opens its device: where name (as above) is of a backend whose
 * devices are alike, and says no number, a device of its own as far as they go; else name. */
const char *rt_device_of_rank(const char *name, const rt_dev_opts *o, uint32_t place, char text[32]);

#endif
