/* cuda_internal.h - shared by the files of this room only: the open device and what its parts offer one another. */
#ifndef RT_BACKEND_CUDA_INTERNAL_H
#define RT_BACKEND_CUDA_INTERNAL_H

#include "backend/cuda/cuda_image.h"
#include "backend/cuda/cuda_launch.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/cuda_tuned.h"
#include "backend/cuda/libs/cuda_driver.h"
#include "backend/cuda/libs/cuda_lt.h"
#include "base/mem.h"

#include <stdatomic.h>

enum {
    RT_CUDA_STAGES = 4,            /* pinned buffers that uploads and downloads pass through */
    RT_CUDA_STAGE_BYTES = 8 << 20, /* of each */
    RT_CUDA_LETTERS = 16,          /* small downloads that can be under way at a time */
    RT_CUDA_LETTER_BYTES = 4096,   /* most of one: an id for each of a thousand answers */
    RT_CUDA_EVENTS = 64,           /* tickets that can be told apart; an older one waits for its successor */
    RT_CUDA_GEMM_WORK = 32 << 20   /* most scratch of one GEMM */
};

struct rt_mem {
    rt_cu_ptr addr;
    uint64_t bytes;
    rt_mem_kind kind;
};

typedef struct rt_cuda_module {
    const char *name; /* of the caller: static text */
    rt_cu_module handle;
} rt_cuda_module;

typedef struct rt_cuda_function {
    const char *module, *name;
    rt_cu_function handle;
    uint32_t shared; /* most dynamic shared memory that was asked for */
} rt_cuda_function;

typedef struct rt_cuda_gemm rt_cuda_gemm; /* one gemm with its algorithm (cuda_gemm.c) */

/* Algorithms of GEMMs by timing (cuda_tune.c). */
typedef struct rt_cuda_tune {
    rt_cuda_tuning mode;
    bool read, fresh;     /* the file was read; something was chosen that is not in it */
    char path[480];       /* where choices are kept for later runs; empty: nowhere */
    char fault[160];      /* why they could not be read or kept */
    rt_cuda_tuned own;    /* choices of this run, read or made */
    rt_cuda_tuned shared; /* those of all runs: the file */
    /* GEMMs of programs: timed now; chosen before; neither. stale: those whose choice the library has no more. */
    uint32_t timed, known, untimed, stale;
    double seconds, most; /* that timing took, and may take */
} rt_cuda_tune;

typedef struct rt_cuda_stage {
    uint8_t *host;
    uint64_t used;    /* bytes from the start that copies were given */
    rt_cu_event free; /* recorded behind the last of them */
} rt_cuda_stage;

/* A download under way: a small one's bytes come into the box, another's into a stage, and `to` gets them when the
 * ticket is waited for, or before the stage is used again. */
typedef struct rt_cuda_letter {
    void *to;          /* null: none */
    rt_cuda_stage *in; /* null: the box */
    const uint8_t *at;
    uint32_t bytes;
    rt_ticket ticket;
} rt_cuda_letter;

typedef struct rt_cuda_ranks rt_cuda_ranks; /* those that this one runs programs with (cuda_comm.c) */

typedef struct rt_cuda_dev {
    rt_dev base;
    rt_cuda_caps caps; /* sm: of the kernels in use, not newer than the GPU */
    rt_cuda_driver cu;
    rt_cuda_lt lt;
    void *lt_handle; /* null: GEMMs of our own */
    rt_cuda_images images;
    rt_cuda_arch arch;
    char instead[160]; /* which image did not load, so that arch is used; empty: all is as chosen */
    char name[96], pci[16];
    uint32_t gpu; /* its own architecture, 90 */
    rt_cu_device device;
    rt_cu_context context;
    rt_cu_stream stream;
    rt_cu_stream copies;  /* of the copy queue; null: no program has one */
    uint8_t *read_stage;  /* (RT_CUDA_STAGE_BYTES) pinned, for what is read from files; null: nothing is */
    rt_cuda_ranks *ranks; /* null: this one is alone */
    /* What went wrong in another thread, which reads files or watches the ranks, and is told by whoever waits. */
    atomic_bool aside_taken, aside_failed; /* taken: by the first that is to be told */
    rt_err aside_err;                      /* then: what */
    rt_mem_kind by_class, memory;          /* what the GPU is; what is used */
    uint64_t total;                        /* bytes */
    bool sync;
    const char *const *env;
    const char *nccl_asked, *nccl_algo, *hang_seconds; /* of env: RETORT_NCCL, NCCL_ALGO, RETORT_NCCL_SECONDS */
    bool fast_sums;  /* RETORT_FP8_FAST_SUMS=1: in e4m3 GEMMs by the library, to measure them */
    char no_lt[160]; /* why there is no cuBLASLt; empty when there is */
    rt_cuda_module *modules;
    uint32_t nmodules, modules_cap;
    rt_cuda_function *functions;
    uint32_t nfunctions, functions_cap;
    rt_cuda_gemm *gemms; /* newest first */
    rt_cuda_tune tune;
    rt_cuda_stage stage[RT_CUDA_STAGES];
    uint32_t filling; /* stage % RT_CUDA_STAGES that the next upload goes into, while it has room */
    rt_cuda_letter letter[RT_CUDA_LETTERS];
    uint8_t *box; /* (letters, bytes), pinned */
    /* Of ticket t, at t % RT_CUDA_EVENTS: its end, and the begin of its run. */
    rt_cu_event event[RT_CUDA_EVENTS], begin[RT_CUDA_EVENTS];
    rt_ticket ticket, done;
    uint64_t context_bytes, module_bytes;
    uint64_t own_bytes; /* of device memory, allocated and not freed */
    bool sealed;        /* a program was sealed: what is loaded from here on is late, unless another is being sealed */
    uint32_t late;      /* modules and functions that were */
} rt_cuda_dev;

/* The caps that op families are handed are a part of their device. */
static inline rt_cuda_dev *rt_cuda_dev_of(const rt_cuda_caps *c)
{
    return (rt_cuda_dev *)(uintptr_t)((const char *)c - offsetof(rt_cuda_dev, caps));
}

/* Makes the device's context that of this thread. */
int rt_cuda_enter(rt_cuda_dev *d, rt_err *e);

/* cuda_module.c: d->arch, or where its images do not load the next that the GPU takes, with a word in d->instead. Needs
 * the context; a module is loaded and given back. */
int rt_cuda_arch_settle(rt_cuda_dev *d, rt_err *e);
/* The kernel with at least this much dynamic shared memory, its module loaded when it is the first. */
int rt_cuda_function_get(rt_cuda_dev *d, const char *module, const char *name, uint32_t shared, rt_cu_function *out,
                         rt_err *e);
void rt_cuda_modules_free(rt_cuda_dev *d);

/* cuda_memory.c */
int rt_cuda_stages_new(rt_cuda_dev *d, rt_err *e);
void rt_cuda_stages_free(rt_cuda_dev *d);
int rt_cuda_mem_new(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e);
void rt_cuda_mem_free(rt_dev *d, rt_mem *m);
int rt_cuda_mem_copy(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e);
int rt_cuda_wait(rt_dev *d, rt_ticket t, rt_err *e);
/* Records the begin of what the next ticket is for; nothing when t is null. */
int rt_cuda_begin(rt_cuda_dev *d, const rt_ticket *t, rt_err *e);
/* Records the end of what was enqueued and gives it a number; nothing when t is null. */
int rt_cuda_ticket(rt_cuda_dev *d, rt_ticket *t, rt_err *e);
double rt_cuda_seconds(rt_dev *d, rt_ticket t);

/* cuda_gemm.c: GEMMs by cuBLASLt. */
typedef struct rt_cuda_gemm_key { /* all that decides the algorithm; compared as bytes */
    uint32_t M, N, K, ta, tb, acc;
    uint32_t type, out_type, bias_type; /* rt_dtype; e4m3: with a scale for each row; RT_CUDA_NO_BIAS: no bias */
    uint32_t align_a, align_b, align_out, align_bias; /* bytes, at most 256 */
    uint32_t fast;                                    /* 1: of e4m3, sums stay in the tensor cores for all of K */
    uint64_t stride_a, stride_b, stride_out;
} rt_cuda_gemm_key;
_Static_assert(sizeof(rt_cuda_gemm_key) == 80, "no gaps: keys are compared as bytes");
enum { RT_CUDA_NO_BIAS = 0xff };
typedef struct rt_cuda_gemm_io {
    rt_cu_ptr a, b, out, bias, work;
    float alpha;
    rt_cu_ptr scale_a, scale_b; /* of e4m3 operands, f32 without gaps */
} rt_cuda_gemm_io;
/* The gemm, kept by the device; null when the library has no algorithm for it. Nothing is timed for it yet: programs
 * are weighed that will never run. Trying how an algorithm rounds takes device memory for a moment: RT_NOMEM when there
 * is none. */
int rt_cuda_gemm_find(rt_cuda_dev *d, const rt_cuda_gemm_key *k, rt_cuda_gemm **out, rt_err *e);
uint64_t rt_cuda_gemm_work(const rt_cuda_gemm *g);    /* of any algorithm that it may get */
const char *rt_cuda_gemm_text(const rt_cuda_gemm *g); /* the algorithm, from rt_cuda_gemm_use on for good */
int rt_cuda_gemm_run(rt_cuda_dev *d, const rt_cuda_gemm *g, const rt_cuda_gemm_io *io, rt_err *e);
/* A program will run it: its algorithm is chosen now, if it was not before. */
int rt_cuda_gemm_use(rt_cuda_dev *d, rt_cuda_gemm *g, rt_err *e);
/* Launches every GEMM that a program uses and that has not run yet once, on scratch of its own. */
int rt_cuda_gemms_warm(rt_cuda_dev *d, rt_err *e);
void rt_cuda_gemms_free(rt_cuda_dev *d);

/* cuda_trial.c: one GEMM on scratch of its own. */
typedef struct rt_cuda_trial {
    rt_cuda_dev *d; /* null: not open */
    const rt_cuda_gemm_key *key;
    rt_mem *mem;
    uint64_t out; /* bytes before the output */
    rt_cuda_gemm_io io;
    rt_cu_event event[2];
} rt_cuda_trial;
/* Of the largest operand, in bytes. */
uint64_t rt_cuda_gemm_reach(const rt_cuda_gemm_key *k);
/* After a failure, too, it is to be closed. */
int rt_cuda_trial_open(rt_cuda_trial *t, rt_cuda_dev *d, const rt_cuda_gemm_key *k, uint64_t work_bytes, rt_err *e);
void rt_cuda_trial_close(rt_cuda_trial *t);
/* Is something added to the result before it is rounded? g: the GEMM, with an algorithm to try. */
int rt_cuda_trial_rounds_once(rt_cuda_trial *t, const rt_cuda_gemm *g, bool *right, rt_err *e);
/* Numbers to time with. */
int rt_cuda_trial_fill(rt_cuda_trial *t, rt_err *e);
/* Seconds of one launch; roughly, when it is much slower than what would be worth having. */
int rt_cuda_trial_time(rt_cuda_trial *t, const rt_cuda_gemm *g, double worth, double *seconds, rt_err *e);

/* cuda_tune.c */
void rt_cuda_tune_begin(rt_cuda_dev *d, const rt_cuda_options *o);
/* The algorithm that was chosen for a GEMM before; null when none was. */
int rt_cuda_tune_named(rt_cuda_dev *d, const char *gemm, const char **algorithm, rt_err *e);
double rt_cuda_tune_left(const rt_cuda_dev *d); /* seconds that timing may still take */
typedef enum rt_cuda_how { RT_CUDA_CHOSEN_BEFORE, RT_CUDA_TIMED, RT_CUDA_UNTIMED } rt_cuda_how;
/* The algorithm with which a program has the GEMM, and how it came to it, in so many seconds. */
int rt_cuda_tune_keep(rt_cuda_dev *d, const char *gemm, const char *algorithm, rt_cuda_how how, double seconds,
                      rt_err *e);
/* What is new into the file for later runs. */
void rt_cuda_tune_write(rt_cuda_dev *d);
/* What was timed, in a sentence; empty: nothing, and no choice was known. */
void rt_cuda_tune_text(const rt_cuda_dev *d, char *out, size_t size);
int rt_cuda_choices_read(rt_dev *d, const char *path, rt_err *e);
int rt_cuda_choices_write(rt_dev *d, const char *path, rt_err *e);

/* cuda_memory.c: one copy of the copy queue, all of an operand or a piece of it. */
typedef struct rt_cuda_fetch {
    rt_cuda_dev *d; /* null: the launch is none */
    rt_cu_ptr to;
    uint64_t from; /* an address; with a reader an offset of its bytes */
    uint64_t bytes;
    const rt_reader *reader;
} rt_cuda_fetch;
/* The stream, if there is none, and where something is read the stage. */
int rt_cuda_queue_open(rt_cuda_dev *d, bool reads, rt_err *e);
void rt_cuda_queue_close(rt_cuda_dev *d);
/* Bytes of x that one copy takes; 0: a row is too long to be read. */
uint64_t rt_cuda_fetch_piece(const rt_operand *x);
/* f has to stay where it is while graphs that captured it can run. */
int rt_cuda_fetch_run(rt_cuda_fetch *f, rt_cu_stream stream, rt_err *e);
/* What went wrong in another thread; RT_OK: nothing yet. The first is kept. */
int rt_cuda_aside_status(rt_cuda_dev *d, rt_err *e);
void rt_cuda_aside_fail(rt_cuda_dev *d, const rt_err *why);
void rt_cuda_push_fetch(rt_cuda_builder *b, const rt_operand *y, const rt_operand *x);

/* cuda_comm.c: what ranks do together. */
typedef struct rt_cuda_collective rt_cuda_collective; /* one op of them (cuda_ranks.h) */
/* Every rank calls it, before a program of several is sealed; alone: of one rank, for a test (RETORT_NCCL_ALONE=1). The
 * verdict is the same on all. */
int rt_cuda_meet(rt_dev *d, const rt_peers *p, rt_err *e);
int rt_cuda_meet_alone(rt_cuda_dev *d, rt_err *e);
void rt_cuda_ranks_close(rt_cuda_dev *d);
rt_cu_stream rt_cuda_ranks_stream(const rt_cuda_dev *d);
/* Whether programs are cut at collectives, which the host then does; else they are in the graphs. */
bool rt_cuda_ranks_staged(const rt_cuda_dev *d);
/* "NCCL 2.28.9 among 8 ranks"; empty: alone. */
const char *rt_cuda_ranks_text(const rt_cuda_dev *d);
/* For the identity of a program: what decides bits. */
void rt_cuda_ranks_identity(const rt_cuda_dev *d, rt_str *out);
/* For `doctor`: which NCCL would be used. */
void rt_cuda_ranks_probe(const rt_cuda_options *o, char *out, size_t size);

/* cuda_program.c */
/* Neighbours, which are done together; their parts are the program's from here on. */
void rt_cuda_push_collectives(rt_cuda_builder *b, const rt_cuda_collective *list, uint32_t count);
void rt_cuda_push_gemm(rt_cuda_builder *b, rt_cuda_gemm *g, const rt_cuda_gemm_io *io);
rt_cuda_dev *rt_cuda_builder_dev(rt_cuda_builder *b);
void rt_cuda_builder_fail(rt_cuda_builder *b, int status, const char *text);
int rt_cuda_prepare(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_err *e);
int rt_cuda_seal(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e);
int rt_cuda_run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e);
int rt_cuda_queue_times(rt_dev *d, rt_prog *g, rt_queue_times *out, rt_err *e);
void rt_cuda_prog_free(rt_dev *d, rt_prog *g);

/* cuda_ops.c */
const rt_cuda_op *rt_cuda_op_find(rt_op_kind kind);

#endif
