/* faults.c - a Vulkan loader that stands before the one of this machine and has a device fail: the nth allocation, the
 * nth submission, the nth wait. Found by the name libvulkan.so.1 through LD_LIBRARY_PATH; x86-64 and AArch64.
 *
 *   FAULTS_REAL     path of the loader that does the work
 *   FAULTS_FILE     lines "submit 17 lost", "alloc 3 oom", "wait 5 hang", "submit 9 nan", "none"; each process that
 *                   opens a device takes the first line out of the file and obeys it. "step 6 lost": when 5 are in
 *   FAULTS_METRICS  this log
 *   FAULTS_DEVICES  how often every device is listed (1)
 *   FAULTS_TYPE     discrete: it says that it is such a GPU
 *
 * lost: this call and all that follow say that the device is lost. oom: this call alone is out of memory. hang: it
 * never comes back. nan: what the device has of memory that the host sees is NaN from then on. A line of what was done
 * goes to FAULTS_FILE.log. */
#include "backend/vulkan/vk_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
#define X(member, symbol) AT_##member,
    RT_VK_LIST(X)
#undef X
        COUNT
};

static void *real[COUNT];

#if defined __x86_64__
#define JUMP(symbol) " jmp *at_" #symbol "(%rip)\n"
#else
#define JUMP(symbol) " adrp x16, at_" #symbol "\n ldr x16, [x16, :lo12:at_" #symbol "]\n br x16\n"
#endif
/* clang-format off */
#define X(member, symbol)                                                                                              \
    __asm__(".globl " #symbol "\n.type " #symbol ", %function\n" #symbol ":\n" JUMP(symbol));                         \
    __asm__(".section .data\n.hidden at_" #symbol "\nat_" #symbol ": .quad 0\n.text\n");                              \
    extern void *at_##symbol __attribute__((visibility("hidden")));
/* clang-format on */
__asm__(".text\n");
RT_VK_LIST(X)
#undef X

typedef enum kind { NONE, ALLOC, SUBMIT, WAIT } kind;
static kind what;
static bool by_step;
static long when, count;
static char how[8];
static int lost;
static VkDevice device;
static struct {
    VkDeviceMemory memory;
    VkDeviceSize bytes;
    void *host;
} seen[4096];
static int nseen;

#define REAL(member, symbol) ((PFN_##symbol)real[AT_##member])

static void tell(const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s.log", getenv("FAULTS_FILE") ? getenv("FAULTS_FILE") : "/dev/null");
    FILE *f = fopen(path, "a");
    if (!f) return;
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void scribble(void)
{
    for (int i = 0; i < nseen; i++)
        if (seen[i].host) memset(seen[i].host, 0xff, seen[i].bytes);
}

static long steps_done(void)
{
    long n = 0;
    char line[1 << 14];
    FILE *f = getenv("FAULTS_METRICS") ? fopen(getenv("FAULTS_METRICS"), "r") : NULL;
    while (f && fgets(line, sizeof line, f)) n += strncmp(line, "{\"event\":\"step\"", 15) == 0;
    if (f) fclose(f);
    return n;
}

/* Of this process: a log that was there before says nothing of its steps, until it has changed. */
static bool reached(void)
{
    static long first = -1;
    static bool own;
    long n = steps_done();
    if (first < 0) first = n;
    own = own || n != first;
    return own && n + 1 >= when;
}

/* VK_SUCCESS: the call is made. */
static VkResult fault(kind k)
{
    if (lost) return VK_ERROR_DEVICE_LOST;
    if (k != what || (by_step ? !reached() : ++count != when)) return VK_SUCCESS;
    what = NONE;
    tell(how);
    if (strcmp(how, "hang") == 0)
        for (;;) pause();
    if (strcmp(how, "nan") == 0) scribble();
    lost = strcmp(how, "lost") == 0;
    if (lost) REAL(device_wait, vkDeviceWaitIdle)(device); /* what is lost computes no more */
    return lost ? VK_ERROR_DEVICE_LOST : strcmp(how, "oom") == 0 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
}

static void take_line(void)
{
    char name[16] = "", line[64], rest[1 << 16];
    const char *path = getenv("FAULTS_FILE");
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f || !fgets(line, sizeof line, f)) line[0] = 0;
    size_t n = f ? fread(rest, 1, sizeof rest, f) : 0;
    if (f) fclose(f);
    if (!line[0] || !(f = fopen(path, "w"))) return;
    fwrite(rest, 1, n, f);
    fclose(f);
    if (sscanf(line, "%15s %ld %7s", name, &when, how) != 3) return;
    by_step = strcmp(name, "step") == 0;
    bool waits = strcmp(name, "wait") == 0 || (by_step && strcmp(how, "hang") == 0);
    what = strcmp(name, "alloc") == 0 ? ALLOC : waits ? WAIT : SUBMIT;
}

static VkResult device_new(VkPhysicalDevice p, const VkDeviceCreateInfo *i, const VkAllocationCallbacks *a, VkDevice *d)
{
    take_line();
    VkResult r = REAL(device_new, vkCreateDevice)(p, i, a, d);
    device = *d;
    return r;
}

static VkResult memory_new(VkDevice d, const VkMemoryAllocateInfo *i, const VkAllocationCallbacks *a, VkDeviceMemory *m)
{
    VkResult r = fault(ALLOC);
    if (r == VK_SUCCESS) r = REAL(memory_new, vkAllocateMemory)(d, i, a, m);
    if (r == VK_SUCCESS && nseen < 4096) seen[nseen++].memory = *m, seen[nseen - 1].bytes = i->allocationSize;
    return r;
}

static VkResult memory_map(VkDevice d, VkDeviceMemory m, VkDeviceSize o, VkDeviceSize n, VkMemoryMapFlags f, void **p)
{
    VkResult r = REAL(memory_map, vkMapMemory)(d, m, o, n, f, p);
    for (int i = 0; i < nseen && r == VK_SUCCESS; i++)
        if (seen[i].memory == m) seen[i].host = *p;
    return r;
}

static void memory_free(VkDevice d, VkDeviceMemory m, const VkAllocationCallbacks *a)
{
    for (int i = 0; i < nseen; i++)
        if (seen[i].memory == m) seen[i].host = NULL, seen[i].memory = VK_NULL_HANDLE;
    REAL(memory_free, vkFreeMemory)(d, m, a);
}

static VkResult submit(VkQueue q, uint32_t n, const VkSubmitInfo *i, VkFence f)
{
    VkResult r = fault(SUBMIT);
    return r == VK_SUCCESS ? REAL(submit, vkQueueSubmit)(q, n, i, f) : r;
}

static VkResult semaphores_wait(VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t t)
{
    VkResult r = fault(WAIT);
    return r == VK_SUCCESS ? REAL(semaphores_wait, vkWaitSemaphores)(d, i, t) : r;
}

static VkResult gpus(VkInstance v, uint32_t *n, VkPhysicalDevice *list)
{
    uint32_t times = getenv("FAULTS_DEVICES") ? (uint32_t)atoi(getenv("FAULTS_DEVICES")) : 1, own = 8, most = *n;
    VkPhysicalDevice all[8];
    VkResult r = REAL(gpus, vkEnumeratePhysicalDevices)(v, &own, all);
    *n = own * times;
    if (!list || r != VK_SUCCESS) return r;
    for (uint32_t i = 0; i < *n && i < most; i++) list[i] = all[i % own];
    return VK_SUCCESS;
}

static void gpu_properties(VkPhysicalDevice p, VkPhysicalDeviceProperties2 *out)
{
    REAL(gpu_properties, vkGetPhysicalDeviceProperties2)(p, out);
    const char *type = getenv("FAULTS_TYPE");
    if (type && strcmp(type, "discrete") == 0) out->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

__attribute__((constructor)) static void find(void)
{
    void *lib = dlopen(getenv("FAULTS_REAL") ? getenv("FAULTS_REAL") : "", RTLD_NOW | RTLD_LOCAL);
#define X(member, symbol) at_##symbol = real[AT_##member] = lib ? dlsym(lib, #symbol) : NULL;
    RT_VK_LIST(X)
#undef X
    at_vkCreateDevice = (void *)device_new;
    at_vkAllocateMemory = (void *)memory_new;
    at_vkFreeMemory = (void *)memory_free;
    at_vkMapMemory = (void *)memory_map;
    at_vkQueueSubmit = (void *)submit;
    at_vkWaitSemaphores = (void *)semaphores_wait;
    at_vkEnumeratePhysicalDevices = (void *)gpus;
    at_vkGetPhysicalDeviceProperties2 = (void *)gpu_properties;
}
