/* vk_swiglu.c - dispatches of swiglu, both ways. */
#include "backend/vulkan/vk_op.h"

enum { FORWARD, BACKWARD, CODED }; /* of vk_swiglu.comp */

static bool swiglu_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p;
    bool coded = op->kind == RT_OP_SWIGLU_FWD && op->slot[RT_GLU_SCALE].buf;
    return vk_takes(need, coded ? "a workgroup for each row, e4m3 codes of it" : "one pass, an element at a time");
}

static void fwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_GLU_G].dtype;
    if (o->slot[RT_GLU_SCALE].mem) {
        rt_vk_dispatch rows = { .shader = "vk_swiglu", .spec = { d, CODED }, .items = o->args.swiglu.N };
        rt_vk_push(b, o, &rows);
    } else
        vk_push_rows(b, o, "vk_swiglu", 1u << RT_GLU_Y | 1u << RT_GLU_G | 1u << RT_GLU_U,
                     (const uint32_t[RT_VK_SPECS]){ d, FORWARD });
}

static void bwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    vk_push_rows(b, o, "vk_swiglu", (1u << o->nslots) - 1,
                 (const uint32_t[RT_VK_SPECS]){ o->slot[RT_GLUB_G].dtype, BACKWARD });
}

const rt_vk_op rt_vk_swiglu_fwd = { swiglu_need, fwd_emit, NULL };
const rt_vk_op rt_vk_swiglu_bwd = { swiglu_need, bwd_emit, NULL };
