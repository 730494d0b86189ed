/* cuda_launch.h - what an op family of this backend sees: the device's limits, operand addresses, and launches.
 *
 * Owns: the entry of one op (what it needs, which launches it becomes) and the builder that collects them. An op is
 * turned into launches once, when its program is sealed; running replays them. Leaves to cuda_program.c: resolving
 * modules and functions, capturing and replaying; to cuda_ops.c: the table from op kind to entry. */
#ifndef RT_BACKEND_CUDA_LAUNCH_H
#define RT_BACKEND_CUDA_LAUNCH_H

#include "backend/backend.h"
#include "backend/cuda/kernels/cuda_tensor_map.h"

#include <stdbool.h>
#include <stdint.h>

enum { RT_CUDA_PARAM_MAX = 4096 }; /* bytes of one kernel's parameter struct: what every GPU takes */

typedef struct rt_cuda_caps {
    uint32_t sm;         /* 75, 80, 90, 121 */
    uint32_t sms;        /* multiprocessors */
    uint32_t shared_max; /* bytes a block may ask for */
    uint32_t ptx;        /* 1: the driver compiled the kernels, so they have nothing that one generation alone has */
    uint32_t maps;       /* 1: the driver makes tensor maps (CUDA 12.0) */
} rt_cuda_caps;

typedef struct rt_cuda_builder rt_cuda_builder; /* collects the launches of one program at seal */

const rt_cuda_caps *rt_cuda_builder_caps(const rt_cuda_builder *b);

/* Device address of element (0,0); 0 when the operand is absent. */
uint64_t rt_cuda_addr(const rt_operand *o);

/* One launch, fixed at seal. module: stem of the .cu file ("cuda_rmsnorm"); kernel: its extern "C" name. Every kernel
 * takes one struct by value (a header shared by C and .cu), copied here, at most RT_CUDA_PARAM_MAX bytes. Errors stick
 * in the builder. */
void rt_cuda_push(rt_cuda_builder *b, const char *module, const char *kernel, const uint32_t grid[3], uint32_t block,
                  uint32_t shared, const void *params, uint32_t bytes);

/* The same in clusters of `blocks` blocks, sm_90 and later; where that is 1, blocks by themselves. */
void rt_cuda_push_clusters(rt_cuda_builder *b, const char *module, const char *kernel, uint32_t clusters,
                           uint32_t blocks, uint32_t threads, uint32_t shared, const void *params, uint32_t bytes);

/* Matrices of 16-bit elements at device address `at` as the copy engine sees them: B times T rows, `stride` elements
 * from one to the next, of `cols` columns, in boxes of 64 rows by 64 columns that lie in shared memory as panels
 * (cuda_wgmma.cuh), with zeros for what is behind T. On 16-byte boundaries, and where caps have `maps`. */
void rt_cuda_panel_map(rt_cuda_builder *b, rt_cuda_tensor_map *out, uint64_t at, uint64_t stride, uint32_t cols,
                       uint32_t T, uint32_t B);

/* Clusters of `blocks` blocks of this kernel, or blocks where that is 1, that may run at once; 0 where the driver
 * cannot say. */
uint32_t rt_cuda_at_once(rt_cuda_builder *b, const char *module, const char *kernel, uint32_t blocks, uint32_t threads,
                         uint32_t shared);

/* For families that take neighbours together: the op that is being emitted and those that follow it in the program lie
 * in one array. How many there are from it on that are of its kind; and that the first n of them have been emitted. */
uint32_t rt_cuda_neighbours(const rt_cuda_builder *b);
void rt_cuda_took(rt_cuda_builder *b, uint32_t n);
/* out (1,C) = or += the sum of P rows (P,C) f32 at part, in order. It is launched with others of its kind before the
 * first op that touches out, or at the end of the program: the op's scratch, where part is, has to stay. */
void rt_cuda_sum_later(rt_cuda_builder *b, const rt_operand *out, uint64_t part, uint32_t P, bool acc);

/* One op kind on this backend; each is defined in the cuda_<family>.c of its family as rt_cuda_<op>. */
typedef struct rt_cuda_op {
    bool (*need)(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need); /* false: need->why_not */
    void (*emit)(rt_cuda_builder *b, const rt_bound_op *op);
} rt_cuda_op;

#endif
