/* vk_count.glsl - what instrumented shaders count besides: bytes that are asked for, bytes that a cache of 4 MiB would
 * have to fetch or write back, floating-point operations. tools/count_shaders.py calls these where they belong.
 *
 * The counters are RT_VK_COUNTERS banks of words (vk_count.h), by workgroup, and behind them the cache: for each of its
 * places the line of 64 bytes that it holds, and whether that was written. It is one for all workgroups, in the order
 * in which they come. */
#ifndef VK_COUNT_GLSL
#define VK_COUNT_GLSL

layout(constant_id = 3) const uint64_t COUNTERS = 0;
const uint COUNT_WORDS = 5, COUNT_BANKS = 64, COUNT_LINES = 65536;
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters {
    uint bank[COUNT_BANKS * COUNT_WORDS];
    uint line[COUNT_LINES];
};

uint counted_[3]; /* loaded, stored, operations of this invocation */

void count_missed(uint word)
{
    atomicAdd(Counters(COUNTERS).bank[gl_WorkGroupID.x % COUNT_BANKS * COUNT_WORDS + word], 64u);
}

/* Two places for a line, the newer one first: lane by lane, so that of those that miss together one fetches. */
bool count_touch(uint line, uint wrote)
{
    uint place = (line * 2654435761u >> 17) * 2, now = line << 1 | wrote, first = Counters(COUNTERS).line[place];
    if (first >> 1 == line && (first & 1) >= wrote) return false;
    uint second = Counters(COUNTERS).line[place + 1];
    bool had = second >> 1 == line;
    if (had) now |= second & 1;
    uint old = atomicExchange(Counters(COUNTERS).line[place], now);
    if (old >> 1 == line) return (old & 1) < wrote;
    Counters(COUNTERS).line[place + 1] = old;
    return !had || (second & 1) < wrote;
}

void count_load(const uint64_t at, const uint bytes)
{
    counted_[0] += bytes;
    if (count_touch(uint(at >> 6) & 0x7fffffffu, 0)) count_missed(2);
}
void count_store(const uint64_t at, const uint bytes)
{
    counted_[1] += bytes;
    if (count_touch(uint(at >> 6) & 0x7fffffffu, 1)) count_missed(3);
}
void count_flops(const uint n) { counted_[2] += n; }
void count_out()
{
    uint first = gl_WorkGroupID.x % COUNT_BANKS * COUNT_WORDS;
    atomicAdd(Counters(COUNTERS).bank[first], counted_[0]);
    atomicAdd(Counters(COUNTERS).bank[first + 1], counted_[1]);
    atomicAdd(Counters(COUNTERS).bank[first + 4], counted_[2]);
}

/* The shader's own main is another; what nobody calls yet stays in the module. */
void shader_main();
void main()
{
    counted_[0] = counted_[1] = counted_[2] = 0;
    if (COUNTERS == 0) {
        count_load(0, 0);
        count_store(0, 0);
        count_flops(0);
    }
    shader_main();
    count_out();
}
#define main shader_main

#endif
