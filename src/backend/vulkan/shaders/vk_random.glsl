/* vk_random.glsl - Philox 4x32-10 as in base/rng.h, and the step values that it is asked with. */
#ifndef VK_RANDOM_GLSL
#define VK_RANDOM_GLSL

/* Words of an rt_step. */
const uint STEP_NUMBER = 0, STEP_TOKENS = 1, STEP_LR = 2, STEP_ROW = 3, STEP_SEED = 4;

uvec4 philox(uvec2 seed, uvec2 stream, uvec2 index)
{
    uvec4 c = uvec4(index, stream);
    for (int round_of = 0; round_of < 10; round_of++) {
        uint hi0, lo0, hi1, lo1;
        umulExtended(0xD2511F53u, c.x, hi0, lo0);
        umulExtended(0xCD9E8D57u, c.z, hi1, lo1);
        c = uvec4(hi1 ^ c.y ^ seed.x, lo1, hi0 ^ c.w ^ seed.y, lo0);
        seed += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}
uvec2 step_seed(Slot step) { return uvec2(load_u32(step.at, STEP_SEED), load_u32(step.at, STEP_SEED + 1)); }

#endif
