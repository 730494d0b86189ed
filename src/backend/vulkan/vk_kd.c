/* vk_kd.c - dispatches of kd_loss: the positions, then their sums. */
#include "backend/vulkan/vk_op.h"

enum { NO_TEACHER, FULL, LIST }; /* of vk_kd.comp */
enum { FIGURE_WORDS = 8, LAST_OF_SHADER = RT_DIV_TV /* what vk_kd_terms.glsl has; a newer one is none of these */ };

static bool kd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_kd_args *a = &op->args.kd;
    uint64_t words = FIGURE_WORDS + (a->k ? vk_div_up(a->V, 32) + 2 * (uint64_t)a->k : 0);
    (void)p;
    if (a->divergence > LAST_OF_SHADER)
        return vk_refuses(need, "this divergence has no formula in vk_kd_terms.glsl yet");
    return vk_takes_with_work(need, "a workgroup for each position, four passes", a->N * words * sizeof(uint32_t));
}

static uint64_t kd_rounds(const rt_op *op) { return op->args.kd.k + 8 * vk_div_up(op->args.kd.V, 256); }

static void kd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_kd_args *a = &o->args.kd;
    const rt_operand *teacher = &o->slot[RT_KD_TEACHER];
    rt_vk_dispatch rows = { .shader = "vk_kd",
                            .spec = { o->slot[RT_KD_LOGITS].dtype, teacher->mem ? teacher->dtype : 0,
                                      a->U   ? FULL
                                      : a->k ? LIST
                                             : NO_TEACHER },
                            .items = a->N };
    rt_vk_dispatch sums = { .shader = "vk_kd_sums", .items = 1 };
    rt_vk_push(b, o, &rows);
    rt_vk_push(b, o, &sums);
}

const rt_vk_op rt_vk_kd_loss = { kd_need, kd_emit, kd_rounds };
