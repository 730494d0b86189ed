/* vk_draw.comp - draws from softmax(x / T) over Vc, in whole numbers as num/draw.h has them. A workgroup takes a row;
 * an invocation a run of ids, whose weights it adds up, and then some of the draws. S0: dtype of x. Own word: log2(e)
 * / T, the bits of an f32. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_draw_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_random.glsl"
#include "vk_reduce.glsl"
#include "vk_pairs.glsl"

const uint ID = 0, LOGP = 1, ENTROPY = 2, X = 3, VMASK = 4, KEY = 5, STEP = 6;
const uint MOST = 1024; /* draws: RT_DRAW_MOST */

shared uint64_t upto[GROUP]; /* the weights of the runs up to here */
shared uint drawn[MOST];

Slot x, vmask;
float most;
uint row;
bool in_vc(uint v) { return !has(VMASK) || (load_u32(vmask.at, v / 32) >> v % 32 & 1) != 0; }

/* below scale in units of 2^-32, rounded to even, 63 2^32 at most. */
uint64_t depth_of(float below)
{
    uint a = floatBitsToUint(below), b = push.word[2];
    if (a >> 23 == 0) return 0ul;
    uint64_t p = uint64_t((a & 0x7fffffu) | 0x800000u) * uint64_t((b & 0x7fffffu) | 0x800000u);
    int up = int(a >> 23) + int(b >> 23) - 300 + 32;
    if (up > -8) return 63ul << 32; /* 2^46 and above, of which 2^38 is left */
    uint down = uint(-up);
    if (down > 60) return 0ul;
    uint64_t rest = p & (1ul << down) - 1ul, half_of = 1ul << down - 1u, q = p >> down;
    if (rest > half_of || (rest == half_of && (q & 1ul) != 0)) q++;
    return min(q, 63ul << 32);
}
uint64_t weight_of_depth(uint64_t depth)
{
    const uint a[6] = uint[](0x58b90ad8u, 0x1ebfd579u, 0x071a2445u, 0x013d0b92u, 0x0028dacau, 0x00071506u);
    uint64_t part = -depth & 0xfffffffful, m = 0ul;
    for (int i = 6; i-- > 0;) m = uint64_t(a[i]) + (part * m >> 32);
    m = (1ul << 31) + (part * m >> 32);
    return m << 12 >> uint(depth + 0xfffffffful >> 32);
}
uint64_t weight_of(uint v, out uint64_t depth)
{
    depth = in_vc(v) ? depth_of(most - get(x, row, v, S0)) : 0ul;
    return in_vc(v) ? weight_of_depth(depth) : 0ul;
}

uint64_t high_product(uint64_t a, uint64_t b)
{
    uint64_t al = a & 0xfffffffful, ah = a >> 32, bl = b & 0xfffffffful, bh = b >> 32;
    uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (middle & 0xfffffffful);
    return ah * bh + (middle >> 32) + (other >> 32);
}

/* The weights of the runs into upto, and of all a sum of weight times depth. */
float add_up(uint run)
{
    uint t = gl_LocalInvocationID.x;
    uint64_t sum = 0ul, depth;
    float depths = 0;
    for (uint v = t * run; v < min(push.a.V, (t + 1) * run); v++) {
        uint64_t w = weight_of(v, depth);
        sum += w;
        depths += float(w) * float(depth);
    }
    barrier();
    upto[t] = sum;
    barrier();
    if (t == 0)
        for (uint i = 1; i < GROUP; i++) upto[i] += upto[i - 1];
    barrier();
    return group_sum(depths);
}

uint fall(uint64_t mark, uint run)
{
    uint i = 0;
    uint64_t sum, depth;
    while (upto[i] <= mark) i++;
    sum = i > 0 ? upto[i - 1] : 0ul;
    for (uint v = i * run;; v++) {
        sum += weight_of(v, depth);
        if (sum > mark) return v;
    }
}

/* The draws in order of their ids, by a bitonic sort; what is behind them is ~0. */
void sort_draws()
{
    uint n = 2;
    while (n < push.a.n) n *= 2;
    for (uint size = 2; size <= n; size *= 2)
        for (uint step = size / 2; step > 0; step /= 2) {
            barrier();
            FOR_LANES (i, n / 2) {
                uint low = i / step * 2 * step + i % step, high = low + step, a = drawn[low], b = drawn[high];
                if ((a > b) == ((low & size) == 0)) {
                    drawn[low] = b;
                    drawn[high] = a;
                }
            }
        }
    barrier();
}

/* The distinct ids, rising, with the logarithms of their shares. */
void list_draws()
{
    Slot ids = slot_of(ID), logps = slot_of(LOGP);
    FOR_LANES (j, push.a.n) {
        uint place = 0, count = 0;
        if (j > 0 && drawn[j] == drawn[j - 1]) continue;
        for (uint i = 1; i <= j; i++) place += uint(drawn[i] != drawn[i - 1]);
        while (j + count < push.a.n && drawn[j + count] == drawn[j]) count++;
        store_u32(ids.at, row * ids.stride + place, drawn[j]);
        put(logps, row, place, F32, log_ratio(Pair(float(count), 0), Pair(float(push.a.n), 0)));
    }
}

void main()
{
    Slot ids = slot_of(ID), logps = slot_of(LOGP), entropies = slot_of(ENTROPY), key = slot_of(KEY);
    uvec2 seed = step_seed(slot_of(STEP));
    uint run = (push.a.V + GROUP - 1) / GROUP;
    x = slot_of(X);
    vmask = slot_of(VMASK);
    FOR_ITEMS (item, push.a.N) {
        row = item;
        uint bad = ~0u;
        most = -INF_F;
        FOR_LANES (v, push.a.V) {
            if (!in_vc(v)) continue;
            float z = get(x, row, v, S0);
            if (!is_finite(z)) bad = min(bad, v);
            most = max(most, z);
        }
        bad = group_least(bad);
        most = group_max(most);
        FOR_LANES (j, push.a.n) {
            store_u32(ids.at, row * ids.stride + j, j == 0 && bad != ~0u ? bad : ~0u);
            put(logps, row, j, F32, bad != ~0u ? NAN_F : 0.0);
        }
        float depths = bad == ~0u ? add_up(run) : 0.0, entropy = bad == ~0u ? 0.0 : NAN_F;
        shared_barrier();
        uint64_t sum = bad == ~0u ? upto[GROUP - 1] : 0ul;
        if (sum != 0ul) {
            uvec2 stream = uvec2(load_u32(key.at, row * key.stride), load_u32(key.at, row * key.stride + 1));
            FOR_LANES (j, MOST)
                drawn[j] = ~0u;
            barrier();
            FOR_LANES (j, push.a.n) {
                uvec4 r = philox(seed, stream, uvec2(j / 2, ~0u));
                uint64_t bits = uint64_t(r[2 * (j % 2) + 1]) << 32 | r[2 * (j % 2)];
                drawn[j] = fall(high_product(bits, sum), run);
            }
            sort_draws();
            list_draws();
            float total = float(sum);
            entropy = log_of(total * 1.1368684e-13) + quotient(depths, total) * 1.61385904e-10; /* 2^-43, ln 2 2^-32 */
        }
        if (gl_LocalInvocationID.x == 0) put(entropies, row, 0, F32, entropy);
    }
}
