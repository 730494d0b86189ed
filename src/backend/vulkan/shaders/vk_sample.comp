/* vk_sample.comp - one id per row; ref_sample.c has the rules. A workgroup takes a row: it penalises, ranks the ids by
 * a bitonic sort in the scratch (unless only the first is wanted), and one invocation walks down the ranks with sums
 * in two floats. S0: dtype of x. Own word: ids of the scratch of a row, a power of two. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_sample_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_random.glsl"
#include "vk_reduce.glsl"
#include "vk_sort.glsl"

const uint ID = 0, LOGP = 1, SEEN = 2, X = 3, KEY = 4, HOW = 5;
const uint TEMPERATURE = 0, TOP_K = 1, TOP_P = 2, MIN_P = 3, PENALTY = 4;

Slot x, seen, how, work;
uint row;
float rule(uint which) { return get(how, row, which, F32); }
float penalised(uint v)
{
    float z = get(x, row, v, S0), by = rule(PENALTY);
    bool was = has(SEEN) && (load_u32(seen.at, row * seen.stride + v / 32) >> v % 32 & 1) != 0;
    return !was ? z : z > 0 ? quotient(z, by) : z * by;
}
Ranked rank_at(uint i) { return Ranked(work.at + 8 * (uint64_t(row) * push.word[2] + i)); }
uint64_t key_at(uint i) { return rank_at(i).v; }
void put_key(uint i, uint64_t key) { rank_at(i).v = key; }

void rank_ids()
{
    FOR_LANES (i, push.word[2])
        put_key(i, i < push.a.V ? rank_key(penalised(i), i) : ~0ul);
    sort_keys(push.word[2]);
}

uint ranked_id(uint j) { return id_of_key(key_at(j)); }
float share_of(uint j, float first, float T) { return exp_of(quotient(penalised(ranked_id(j)) - first, T)); }

/* By one invocation. */
uint walk(float u)
{
    float T = rule(TEMPERATURE), top_p = rule(TOP_P), min_p = rule(MIN_P), top_k = rule(TOP_K);
    float first = penalised(ranked_id(0));
    uint kept = top_k >= 1 && top_k < float(push.a.V) ? uint(top_k) : push.a.V, prefix = 0;
    Pair sum = Pair(0, 0), mass = Pair(0, 0), below = Pair(0, 0);
    for (uint j = 0; j < kept; j++) sum = pair_add(sum, share_of(j, first, T));
    for (; prefix < kept; prefix++) {
        float p = share_of(prefix, first, T);
        if (prefix > 0 && ((top_p < 1 && mass.hi >= top_p * sum.hi) || p < min_p)) break;
        mass = pair_add(mass, p);
    }
    for (uint j = 0; j < prefix; j++) {
        below = pair_add(below, share_of(j, first, T));
        if (below.hi > u * mass.hi) return ranked_id(j);
    }
    return ranked_id(prefix - 1);
}

/* The likeliest id, which needs no ranks. */
uint likeliest()
{
    float most = -INF_F;
    uint least = ~0u;
    FOR_LANES (v, push.a.V)
        most = max(most, penalised(v));
    most = group_max(most);
    FOR_LANES (v, push.a.V)
        if (penalised(v) == most) least = min(least, v);
    return group_least(least);
}

float log_share(uint id)
{
    float most = -INF_F, sum = 0;
    FOR_LANES (v, push.a.V)
        most = max(most, get(x, row, v, S0));
    most = group_max(most);
    FOR_LANES (v, push.a.V)
        sum += exp_of(get(x, row, v, S0) - most);
    return get(x, row, id, S0) - most - log_of(group_sum(sum));
}

void main()
{
    Slot ids = slot_of(ID), logps = slot_of(LOGP), key = slot_of(KEY);
    uint t = gl_LocalInvocationID.x;
    x = slot_of(X);
    seen = slot_of(SEEN);
    how = slot_of(HOW);
    work = slot_of(WORK);
    FOR_ITEMS (item, push.a.N) {
        row = item;
        uint bad = 0, id = 0;
        FOR_LANES (v, push.a.V)
            if (!is_finite(get(x, row, v, S0))) bad = 1;
        bad = group_any(bad);
        if (bad == 0 && rule(TEMPERATURE) <= 0)
            id = likeliest();
        else if (bad == 0) {
            uvec2 place = uvec2(load_u32(key.at, row * key.stride), load_u32(key.at, row * key.stride + 1));
            rank_ids();
            if (t == 0) id = walk(float(philox(uvec2(0), uvec2(0, 0x40000000u), place).x >> 8) * (1.0 / 16777216.0));
            id = group_most(id);
        }
        float logp = bad == 0 && has(LOGP) ? log_share(id) : NAN_F;
        barrier();
        if (t != 0) continue;
        store_u32(ids.at, row * ids.stride, bad != 0 ? ~0u : id);
        if (has(LOGP)) put(logps, row, 0, F32, logp);
        uint64_t word = row * seen.stride + id / 32;
        if (has(SEEN) && bad == 0) store_u32(seen.at, word, load_u32(seen.at, word) | 1u << id % 32);
    }
}
