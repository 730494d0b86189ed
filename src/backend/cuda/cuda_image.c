/* cuda_image.c - see cuda_image.h. */
#include "backend/cuda/cuda_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const uint8_t rt_embed_cuda_kernels[], rt_embed_cuda_kernels_end[];

bool rt_cuda_images_parse(rt_cuda_images *out, const void *block, size_t bytes)
{
    const rt_cuda_block *head = block;
    *out = (rt_cuda_images){ 0 };
    if (bytes < sizeof *head || memcmp(head->magic, "RTCUDA1", 8) != 0) return false;
    if (head->count > (bytes - sizeof *head) / sizeof(rt_cuda_image)) return false;
    const rt_cuda_image *list = (const void *)(head + 1);
    for (uint32_t i = 0; i < head->count; i++)
        if (list[i].offset > bytes || list[i].bytes >= bytes - list[i].offset) return false;
    *out = (rt_cuda_images){ block, list, head->count, head->built };
    return true;
}

rt_cuda_images rt_cuda_images_own(void)
{
    rt_cuda_images own;
    rt_cuda_images_parse(&own, rt_embed_cuda_kernels, (size_t)(rt_embed_cuda_kernels_end - rt_embed_cuda_kernels));
    return own;
}

/* Systems on a chip (Tegra: Xavier, Orin, Thor). Their machine code is their own, whatever its number says. */
static bool on_a_chip(uint32_t sm)
{
    static const uint32_t list[] = { 72, 87, 88, 101, 110 };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == sm) return true;
    return false;
}

/* Machine code runs on later GPUs of its generation. */
static bool code_runs(uint32_t sm, uint32_t gpu)
{
    if (on_a_chip(sm) || on_a_chip(gpu)) return sm == gpu;
    return sm <= gpu && sm / 10 == gpu / 10;
}

/* Is the image one that the GPU can run, and better than what was found before? */
static bool better(const rt_cuda_image *i, uint32_t gpu, bool ptx, rt_cuda_arch best)
{
    bool runs = i->ptx == ptx && (ptx ? i->sm <= gpu : code_runs(i->sm, gpu));
    return runs && i->sm > best.sm;
}

int rt_cuda_images_choose(const rt_cuda_images *all, uint32_t gpu, const char *kernels, rt_cuda_arch *out, rt_err *e)
{
    char text[160], *end = NULL;
    rt_cuda_arch best = { 0 };
    bool any = !kernels || strcmp(kernels, "auto") == 0, ptx = !any;
    unsigned long only = 0;
    if (!any && strncmp(kernels, "ptx", 3) == 0) only = kernels[3] ? strtoul(kernels + 3, &end, 10) : 0;
    if (!any && (strncmp(kernels, "ptx", 3) != 0 || (end && *end)))
        return rt_fail(e, RT_INVALID, "'%s' is no choice of kernels; it is auto, ptx, or ptx and a number as in ptx80",
                       kernels);
    for (int pass = ptx; pass < 2 && !best.sm; pass++)
        for (uint32_t i = 0; i < all->count; i++)
            if ((!only || all->list[i].sm == only) && better(&all->list[i], gpu, pass, best))
                best = (rt_cuda_arch){ all->list[i].sm, all->list[i].ptx };
    rt_cuda_images_text(all, text, sizeof text);
    if (!best.sm)
        return rt_fail(e, RT_NO_BACKEND,
                       "this binary has kernels for %s, none of which this GPU (sm_%u) can run%s; build it with "
                       "make CUDA_ARCHS=%u",
                       text, gpu, any ? "" : " as asked for", gpu);
    *out = best;
    return RT_OK;
}

bool rt_cuda_images_after(const rt_cuda_images *all, uint32_t gpu, rt_cuda_arch last, rt_cuda_arch *out)
{
    rt_cuda_arch best = { 0 };
    for (uint32_t i = 0; i < all->count; i++) {
        const rt_cuda_image *m = &all->list[i];
        if ((!last.ptx || m->sm < last.sm) && better(m, gpu, true, best)) best = (rt_cuda_arch){ m->sm, m->ptx };
    }
    if (best.sm) *out = best;
    return best.sm != 0;
}

/* Whoever runs `make test-gpu` on another GPU adds a line. */
const char *rt_cuda_images_proof(rt_cuda_arch arch)
{
    static const struct {
        rt_cuda_arch arch;
        const char *text;
    } table[] = {
        { { 90, 0 }, "run on an H200" },
        { { 75, 1 }, "run on an H200" },
        { { 90, 1 }, "run on an H200" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].arch.sm == arch.sm && table[i].arch.ptx == arch.ptx) return table[i].text;
    return NULL;
}

const rt_cuda_image *rt_cuda_images_smallest(const rt_cuda_images *all, rt_cuda_arch arch)
{
    const rt_cuda_image *least = NULL;
    for (uint32_t i = 0; i < all->count; i++) {
        const rt_cuda_image *m = &all->list[i];
        if (m->sm == arch.sm && m->ptx == arch.ptx && (!least || m->bytes < least->bytes)) least = m;
    }
    return least;
}

const void *rt_cuda_images_find(const rt_cuda_images *all, const char *module, rt_cuda_arch arch)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const rt_cuda_image *m = &all->list[i];
        if (m->sm == arch.sm && m->ptx == arch.ptx && strncmp(m->module, module, sizeof m->module) == 0)
            return all->block + m->offset;
    }
    return NULL;
}

void rt_cuda_images_text(const rt_cuda_images *all, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < all->count && n < size; i++) {
        bool seen = false;
        for (uint32_t k = 0; k < i; k++)
            seen = seen || (all->list[k].sm == all->list[i].sm && all->list[k].ptx == all->list[i].ptx);
        if (!seen)
            n += (size_t)snprintf(text + n, size - n, "%s%s_%u", n ? " " : "", all->list[i].ptx ? "ptx" : "sm",
                                  all->list[i].sm);
    }
    if (n == 0) snprintf(text, size, "no GPU");
}
