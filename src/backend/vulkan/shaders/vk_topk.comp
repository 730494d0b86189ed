/* vk_topk.comp - the k most likely ids of a row with their log-probabilities at temperature T over Vc, and the mass
 * that is left. A workgroup takes a row and reads it twice, the second time from a cache.
 *
 * First: the largest value, and how many columns have each of the first digits of their keys (by value, then by id).
 * The digit of the k-th column bounds the candidates; while they are more than the list has room for, their next digit
 * bounds them further. Second: candidates go into the list, the mass of the others is added up. The list is then
 * sorted, so the order in which columns came to it does not matter.
 *
 * S0: dtype of x; S1: 0: the list is in shared memory; 1: in the scratch. Own word: its room, a power of two, at least
 * k. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_topk_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"
#include "vk_sort.glsl"

const uint ID = 0, LOGP = 1, REST = 2, X = 3, VMASK = 4;
const uint DIGIT = 10, DIGITS = 1 << DIGIT, NEAR = 512, EACH = DIGITS / GROUP;

shared uint count[DIGITS], digit, below, taken;
shared uint64_t near[NEAR];

Slot x, vmask, work;
uint row;
bool in_vc(uint v) { return !has(VMASK) || (load_u32(vmask.at, v / 32) >> v % 32 & 1) != 0; }

Ranked far_at(uint i) { return Ranked(work.at + 8 * (uint64_t(row) * push.word[2] + i)); }
uint64_t key_at(uint i) { return S1 == 0 ? near[i] : far_at(i).v; }
void put_key(uint i, uint64_t key)
{
    if (S1 == 0)
        near[i] = key;
    else
        far_at(i).v = key;
}

/* What the columns of this invocation are. */
struct Seen {
    float most;
    uint columns, bad;
};

/* Counts the digits at `shift` of the columns whose keys are alike above them, if `above` is not 64. */
Seen count_digits(uint64_t like, uint above, uint shift)
{
    Seen s = Seen(-INF_F, 0, 0);
    barrier();
    FOR_LANES (i, DIGITS)
        count[i] = 0;
    barrier();
    FOR_LANES (v, push.a.V) {
        if (!in_vc(v)) continue;
        float z = get(x, row, v, S0);
        uint64_t key = rank_key(z, v);
        s.columns++;
        s.most = max(s.most, z);
        if (!is_finite(z)) s.bad = 1;
        if (above == 64 || key >> above == like >> above) atomicAdd(count[uint(key >> shift) % DIGITS], 1u);
    }
    barrier();
    return s;
}

/* The digit up to which there are `want` columns, of which `before` are below all digits: found by one invocation,
 * known by all. Returns how many columns there are up to it. */
uint find_digit(uint want, uint before)
{
    uint t = gl_LocalInvocationID.x, sum = 0;
    for (uint i = 0; i < EACH; i++) sum += count[t * EACH + i];
    tree_u[t] = sum;
    barrier();
    if (t == 0) {
        uint run = 0, at = 0;
        while (run + 1 < GROUP && before + tree_u[run] < want) before += tree_u[run++];
        for (at = run * EACH; at + 1 < DIGITS && before + count[at] < want; at++) before += count[at];
        digit = at;
        below = before;
    }
    barrier();
    return below + count[digit];
}

/* The largest key that a candidate has: `want` columns have none above it, and the list takes all of them. */
uint64_t find_bound(uint want)
{
    uint64_t bound = 0;
    uint before = 0, shift = 64 - DIGIT;
    for (;;) {
        uint candidates = find_digit(want, before);
        bound |= uint64_t(digit) << shift;
        if (candidates <= push.word[2] || shift == 0) return bound | (1ul << shift) - 1ul;
        before = below;
        uint next = shift > DIGIT ? shift - DIGIT : 0;
        count_digits(bound, shift, next);
        shift = next;
    }
}

/* The candidates into the list, in order; returns this invocation's part of the mass of the other columns. */
float list_candidates(uint64_t bound, float most, float inverse_T)
{
    float left = 0;
    FOR_LANES (i, push.word[2])
        put_key(i, ~0ul);
    if (gl_LocalInvocationID.x == 0) taken = 0;
    shared_barrier();
    FOR_LANES (v, push.a.V) {
        if (!in_vc(v)) continue;
        float z = get(x, row, v, S0);
        uint64_t key = rank_key(z, v);
        if (key <= bound)
            put_key(atomicAdd(taken, 1u), key);
        else
            left += exp_of((z - most) * inverse_T);
    }
    barrier();
    uint n = 2;
    while (n < taken) n *= 2;
    sort_keys(n);
    return left;
}

void say(Slot ids, Slot logps, Slot rests, uint bad, float most, float left)
{
    float inverse_T = quotient(1.0, push.a.T), listed = 0;
    uint n = bad != 0 ? 0 : min(taken, push.a.k);
    FOR_LANES (j, bad != 0 ? 0 : taken) {
        float p = exp_of((value_of_key(key_at(j)) - most) * inverse_T);
        if (j < n)
            listed += p;
        else
            left += p;
    }
    left = group_sum(left);
    float sum = group_sum(listed) + left, log_sum = log_of(sum);
    FOR_LANES (j, push.a.k) {
        uint64_t key = j < n ? key_at(j) : 0ul;
        store_u32(ids.at, row * ids.stride + j, j < n ? id_of_key(key) : ~0u);
        put(logps, row, j, F32, bad != 0 ? NAN_F : j >= n ? -INF_F : (value_of_key(key) - most) * inverse_T - log_sum);
    }
    if (gl_LocalInvocationID.x == 0) put(rests, row, 0, F32, bad != 0 ? NAN_F : sum == 0 ? 0.0 : quotient(left, sum));
}

void main()
{
    Slot ids = slot_of(ID), logps = slot_of(LOGP), rests = slot_of(REST);
    x = slot_of(X);
    vmask = slot_of(VMASK);
    work = slot_of(WORK);
    FOR_ITEMS (item, push.a.N) {
        row = item;
        Seen s = count_digits(0ul, 64, 64 - DIGIT);
        float most = group_max(s.most), left = 0;
        uint bad = group_any(s.bad), columns = group_count(s.columns);
        if (bad == 0) left = list_candidates(find_bound(min(push.a.k, columns)), most, quotient(1.0, push.a.T));
        say(ids, logps, rests, bad, most, left);
    }
}
