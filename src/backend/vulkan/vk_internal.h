/* vk_internal.h - an open device of this backend, and what the files of the room know of one another. */
#ifndef RT_BACKEND_VULKAN_VK_INTERNAL_H
#define RT_BACKEND_VULKAN_VK_INTERNAL_H

#include "backend/vulkan/vk_cache.h"
#include "backend/vulkan/vk_driver.h"
#include "backend/vulkan/vk_image.h"
#include "backend/vulkan/vk_launch.h"
#include "backend/vulkan/vk_policy.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

struct rt_mem {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t bytes, addr; /* addr: on the device */
    uint8_t *host;        /* where the host sees it; null: nowhere */
    rt_mem_kind kind;
};

enum {
    RT_VK_STAGES = 4,
    RT_VK_STAGE_BYTES = 4 << 20,
    RT_VK_SMALL = 4096 /* a download of at most so many bytes is delivered when its ticket is waited for */
};

/* A piece of host memory through which copies go, with the commands that use it. */
typedef struct rt_vk_stage {
    rt_mem *mem;
    VkCommandBuffer commands;
    rt_ticket busy; /* until this is done */
    void *to;       /* a small download that is under way; null: none */
    uint32_t to_bytes;
} rt_vk_stage;

typedef struct rt_vk_pipeline {
    char module[48];
    uint32_t spec[RT_VK_SPECS];
    VkPipeline pipeline;
} rt_vk_pipeline;

/* When the last programs began and ended, by the device's clock: a pair of timestamps for each. */
enum { RT_VK_CLOCK_RUNS = 64 };
typedef struct rt_vk_clock {
    VkQueryPool queries; /* (RT_VK_CLOCK_RUNS, 2); null: the queue has no clock */
    VkCommandBuffer mark[RT_VK_CLOCK_RUNS][2];
    rt_ticket of[RT_VK_CLOCK_RUNS];
    uint32_t turn;
} rt_vk_clock;

/* What is known of a GPU before it is opened. */
typedef struct rt_vk_gpu {
    VkPhysicalDevice handle;
    VkPhysicalDeviceType type;
    char name[96], driver[160];
    rt_vk_features has;
    uint32_t subgroup;
    rt_vk_driver_id id;
    uint64_t heap, budget, largest; /* of the largest device-local heap; largest: of one allocation */
    bool says_budget;               /* VK_EXT_memory_budget */
    uint32_t groups;                /* workgroups of a dispatch, along x */
    uint32_t family;                /* of queues that compute */
    uint32_t clock_bits;            /* of their timestamps; 0: they have none */
    double tick;                    /* nanoseconds */
} rt_vk_gpu;

typedef struct rt_vk_dev {
    rt_dev base;
    rt_vk_driver vk;
    rt_vk_images images;
    rt_vk_gpu gpu;
    rt_mem_kind by_class, memory;
    bool sync;
    VkPhysicalDeviceMemoryProperties types;
    VkDevice device;
    VkQueue queue;
    VkSemaphore timeline;      /* its value is the newest ticket that is done */
    rt_ticket submitted, done; /* done: as far as the host has looked */
    VkCommandPool pool;
    VkPipelineLayout layout;
    rt_vk_stage stage[RT_VK_STAGES];
    uint32_t turn; /* of the next stage */
    rt_vk_pipeline *pipelines;
    uint32_t npipelines, pipelines_cap;
    uint32_t late; /* pipelines made after seal */
    VkPipelineCache cache;
    char cache_path[512], cache_fault[160]; /* the file, empty: none; why it was not written */
    rt_hash128 cache_read;                  /* of what the file had for this driver */
    rt_vk_clock clock;
    bool sealed;
    uint64_t own_bytes;
    rt_mem *counters; /* of shaders that count (vk_count.h) */
} rt_vk_dev;

const rt_vk_op *rt_vk_op_find(rt_op_kind kind);

/* ---- vk_memory.c ---- */
int rt_vk_stages_new(rt_vk_dev *d, rt_err *e);
void rt_vk_stages_free(rt_vk_dev *d);
int rt_vk_mem_new(rt_dev *dev, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e);
void rt_vk_mem_free(rt_dev *dev, rt_mem *m);
int rt_vk_mem_copy(rt_dev *dev, const rt_copy *c, rt_ticket *t, rt_err *e);
int rt_vk_wait(rt_dev *dev, rt_ticket t, rt_err *e);
/* Bytes that a program reads when it comes to them, through the stages. */
typedef struct rt_vk_fetch {
    rt_mem *to;
    uint64_t off, bytes, from;
    const rt_reader *reader; /* null: it is none */
} rt_vk_fetch;
int rt_vk_fetch_run(rt_vk_dev *d, const rt_vk_fetch *f, rt_err *e);
/* Commands begin, see all that was submitted before, and go to the queue; the ticket is theirs. */
int rt_vk_commands_begin(rt_vk_dev *d, VkCommandBuffer commands, bool again, rt_err *e);
void rt_vk_barrier(const rt_vk_dev *d, VkCommandBuffer commands);
int rt_vk_submit(rt_vk_dev *d, const VkCommandBuffer *commands, uint32_t n, rt_ticket *t, rt_err *e);

/* ---- vk_pipeline.c ---- */
int rt_vk_pipeline_find(rt_vk_dev *d, const char *module, const uint32_t spec[RT_VK_SPECS], VkPipeline *out, rt_err *e);
/* Reads the file of the cache, if there is one; writes it, if it has changed, and frees all. */
int rt_vk_pipelines_begin(rt_vk_dev *d, const char *const *env, rt_err *e);
void rt_vk_pipelines_free(rt_vk_dev *d);

/* ---- vk_clock.c ---- */
int rt_vk_clock_new(rt_vk_dev *d, rt_err *e);
void rt_vk_clock_free(rt_vk_dev *d);
/* The commands that mark begin and end of a run, and which pair that is; null: there is no clock. */
const VkCommandBuffer *rt_vk_clock_next(rt_vk_dev *d, uint32_t *pair);
double rt_vk_seconds(rt_dev *dev, rt_ticket t);

/* ---- vk_program.c ---- */
int rt_vk_prepare(rt_dev *dev, const rt_bound_op *ops, uint32_t nops, rt_err *e);
int rt_vk_seal(rt_dev *dev, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e);
int rt_vk_run(rt_dev *dev, rt_prog *g, rt_ticket *t, rt_err *e);
void rt_vk_prog_free(rt_dev *dev, rt_prog *g);

#endif
