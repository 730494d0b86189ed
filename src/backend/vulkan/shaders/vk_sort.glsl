/* vk_sort.glsl - ids in order of their values: keys, and a bitonic sort of them by a workgroup, wherever they lie. */
#ifndef VK_SORT_GLSL
#define VK_SORT_GLSL

layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Ranked {
    uint64_t v;
};

/* Rises as the value falls, then with the id; 0 and -0 are one. */
uint64_t rank_key(float z, uint v)
{
    uint u = floatBitsToUint(z);
    if (u << 1 == 0) u = 0;
    uint rising = (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
    return uint64_t(~rising) << 32 | v;
}
uint id_of_key(uint64_t key) { return uint(key); }
float value_of_key(uint64_t key)
{
    uint rising = ~uint(key >> 32);
    return uintBitsToFloat((rising & 0x80000000u) != 0 ? rising & 0x7fffffffu : ~rising);
}

/* Key i of the row; the shader says where. */
uint64_t key_at(uint i);
void put_key(uint i, uint64_t key);

/* n: a power of two. All invocations call it; what they put before and read behind it is seen by all. */
void sort_keys(uint n)
{
    for (uint size = 2; size <= n; size *= 2)
        for (uint step = size / 2; step > 0; step /= 2) {
            shared_barrier();
            FOR_LANES (i, n / 2) {
                uint low = i / step * 2 * step + i % step, high = low + step;
                uint64_t a = key_at(low), b = key_at(high);
                if ((a > b) == ((low & size) == 0)) {
                    put_key(low, b);
                    put_key(high, a);
                }
            }
        }
    shared_barrier();
}

#endif
