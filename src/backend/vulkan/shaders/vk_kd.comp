/* vk_kd.comp - the distillation loss of positions, and its gradient in place of the logits; ref_kd.c has the formulas.
 * A workgroup takes a position and passes over its columns: maxima; sums of exponentials; terms; gradient. Sums are
 * carried in two floats: logits that are alike round alike, and a hundred thousand of them in one direction.
 *
 * S0: dtype of logits; S1: of the teacher's; S2: 0 no teacher, 1 all its logits, 2 a list. The scratch has eight words
 * for each position (ce, div, top1, trained, 1: unsound), which vk_kd_sums.comp adds up; with a list, behind them, for
 * each position a bit for every listed id, then g of every entry, and whether it counts. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_kd_args
#define GROUP 256
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"
#include "vk_pairs.glsl"
#include "vk_kd_terms.glsl"
#include "vk_random.glsl"

const uint LOGITS = 0, CE = 2, DIV = 3, TOP1 = 4, TARGET = 6, STEP = 7, TEACHER = 8, TK_ID = 9, TK_LOGP = 10,
           TK_REST = 11, VMASK = 12;
const uint FULL = 1, LIST = 2;

/* Logits of one kind: the largest, the sum of exp((x - most) / T), its logarithm and inverse. */
struct Softmax {
    float most, log_sum, inverse;
    Pair sum;
};
const Softmax NONE = Softmax(0, 0, 0, Pair(0, 0));
struct Row {
    uint row;
    Softmax all;  /* logits, at temperature 1 */
    Softmax q, p; /* student and teacher over Vc, at T */
    Softmax rest; /* student over what a list leaves of Vc */
    float total, g_rest; /* of g */
};
Slot z_at, teacher, vmask, work;
float inverse_T;
vec2 log_mix;
uint kind;

bool in_vc(uint v)
{
    return (!has(VMASK) || (load_u32(vmask.at, v / 32) >> v % 32 & 1) != 0) && (S2 != FULL || v < push.a.U);
}
float logit(uint row, uint v) { return get(z_at, row, v, S0); }
float taught(uint row, uint v) { return get(teacher, row, v, S1); }
/* (x - most) / T; then the logarithm of the probability, and that itself */
float above(Softmax s, float x) { return (x - s.most) * inverse_T; }
float log_of_share(Softmax s, float x) { return above(s, x) - s.log_sum; }
float share_of(Softmax s, float x) { return exp_of(above(s, x)) * s.inverse; }
void settle(inout Softmax s, Pair lanes)
{
    s.sum = group_pairs(lanes);
    s.log_sum = log_of(s.sum.hi + s.sum.lo);
    s.inverse = quotient(1.0, s.sum.hi + s.sum.lo);
}
/* of outcome v of Vc, when the teacher gives all */
vec2 full_term(Row r, uint v)
{
    float z = logit(r.row, v), t = taught(r.row, v);
    float lp = log_of_share(r.p, t), lq = log_of_share(r.q, z);
    return term(kind, push.a.mix, log_mix, lp, lq, share_of(r.p, t), share_of(r.q, z));
}

/* ---- what a list keeps in the scratch ---- */

uint words() { return (push.a.V + 31) / 32; }
uint64_t bits_at(uint row) { return work.at + 4 * (8ul * push.a.N + uint64_t(row) * words()); }
uint64_t g_at(uint row) { return work.at + 4 * (8ul * push.a.N + uint64_t(push.a.N) * words() + 2ul * row * push.a.k); }
bool is_listed(uint row, uint v) { return (AtShared(bits_at(row) + 4 * (v / 32)).v >> v % 32 & 1) != 0; }
uint counts(uint row, uint j) { return AtShared(g_at(row) + 4 * (push.a.k + j)).v; }
int id_of(uint row, uint j)
{
    Slot ids = slot_of(TK_ID);
    return load_i32(ids.at, row * ids.stride + j);
}
float logp_of(uint row, uint j) { return get(slot_of(TK_LOGP), row, j, F32); }

/* Marks the listed ids, one entry after the other. The likeliest of the list; unsound: an id outside Vc or twice. */
int mark_list(uint row, inout uint unsound)
{
    int best = -1;
    FOR_LANES (i, words())
        AtShared(bits_at(row) + 4 * i).v = 0;
    shared_barrier();
    if (gl_LocalInvocationID.x == 0) {
        float best_logp = 0;
        for (uint j = 0; j < push.a.k; j++) {
            int id = id_of(row, j);
            float l = logp_of(row, j);
            bool known = id >= 0 && uint(id) < push.a.V && in_vc(uint(id)) && !is_listed(row, uint(id));
            AtShared(g_at(row) + 4 * (push.a.k + j)).v = uint(known);
            if (id < 0) continue;
            if (!known || !is_finite(l)) unsound = 1;
            if (best < 0 || l > best_logp || (l == best_logp && id < best)) {
                best = id;
                best_logp = l;
            }
            if (known) AtShared(bits_at(row) + 4 * (uint(id) / 32)).v |= 1u << uint(id) % 32;
        }
    }
    shared_barrier();
    return int(group_most(uint(best + 1))) - 1;
}

/* ---- passes ---- */

void find_maxima(inout Row r, inout uint unsound)
{
    float most = -INF_F, most_q = -INF_F, most_p = -INF_F;
    FOR_LANES (v, push.a.V) {
        float z = logit(r.row, v);
        if (!is_finite(z)) unsound = 1;
        most = max(most, z);
        if (S2 == 0 || !in_vc(v)) continue;
        most_q = max(most_q, z);
        if (S2 != FULL) continue;
        float t = taught(r.row, v);
        if (!is_finite(t)) unsound = 1;
        most_p = max(most_p, t);
    }
    r.all.most = group_max(most);
    if (S2 != 0) r.q.most = group_max(most_q);
    if (S2 == FULL) r.p.most = group_max(most_p);
}

/* Sums of exponentials; the likeliest ids of student and teacher. */
uvec2 find_sums(inout Row r)
{
    Pair sum = Pair(0, 0), sum_q = sum, sum_p = sum;
    uvec2 best = uvec2(~0u);
    FOR_LANES (v, push.a.V) {
        float z = logit(r.row, v);
        sum = pair_add(sum, exp_of(z - r.all.most));
        if (S2 == 0 || !in_vc(v)) continue;
        sum_q = pair_add(sum_q, exp_of(above(r.q, z)));
        if (z == r.q.most) best.x = min(best.x, v);
        if (S2 != FULL) continue;
        float t = taught(r.row, v);
        sum_p = pair_add(sum_p, exp_of(above(r.p, t)));
        if (t == r.p.most) best.y = min(best.y, v);
    }
    settle(r.all, sum);
    if (S2 != 0) {
        settle(r.q, sum_q);
        best.x = group_least(best.x);
    }
    if (S2 == FULL) {
        settle(r.p, sum_p);
        best.y = group_least(best.y);
    }
    return best;
}

/* The divergence over all of Vc. */
float full_terms(inout Row r)
{
    Pair d = Pair(0, 0), g = d;
    FOR_LANES (v, push.a.V) {
        if (!in_vc(v)) continue;
        vec2 t = full_term(r, v);
        d = pair_add(d, t.x);
        g = pair_add(g, t.y);
    }
    r.total = group_total(g);
    return group_total(d);
}

/* All ids of Vc that are not listed: added up from them, not taken from 1. false: there are none. */
bool find_rest(inout Row r)
{
    float most = -INF_F;
    uint any = 0;
    Pair sum = Pair(0, 0);
    FOR_LANES (v, push.a.V)
        if (in_vc(v) && !is_listed(r.row, v)) {
            most = max(most, logit(r.row, v));
            any = 1;
        }
    any = group_any(any);
    r.rest.most = group_max(most);
    FOR_LANES (v, push.a.V)
        if (in_vc(v) && !is_listed(r.row, v)) sum = pair_add(sum, exp_of(above(r.rest, logit(r.row, v))));
    settle(r.rest, sum);
    return any != 0;
}

/* The divergence over the list and the rest. */
float list_terms(inout Row r, inout uint unsound)
{
    float rest = get(slot_of(TK_REST), r.row, 0, F32);
    Pair d = Pair(0, 0), g = d;
    bool left = find_rest(r);
    if (!is_finite(rest)) unsound = 1;
    FOR_LANES (j, push.a.k) {
        if (counts(r.row, j) == 0) continue;
        float z = logit(r.row, uint(id_of(r.row, j))), lp = logp_of(r.row, j);
        vec2 t = term(kind, push.a.mix, log_mix, lp, log_of_share(r.q, z), exp_of(lp), share_of(r.q, z));
        AtShared(g_at(r.row) + 4 * j).v = floatBitsToUint(t.y);
        d = pair_add(d, t.x);
        g = pair_add(g, t.y);
    }
    if (left) {
        float lp = !(rest <= 0) ? log_of(rest) : -INF_F;
        float lq = above(r.q, r.rest.most) + log_ratio(r.rest.sum, r.q.sum);
        vec2 t = term(kind, push.a.mix, log_mix, lp, lq, !(rest <= 0) ? rest : 0.0, exp_of(lq));
        r.g_rest = t.y;
        if (gl_LocalInvocationID.x == 0) {
            d = pair_add(d, t.x);
            g = pair_add(g, t.y);
        }
    }
    r.total = group_total(g);
    return group_total(d);
}

/* Slope of CE, and of the divergence in Vc, over the trained positions; g_part is g_j q_v / Q_j. In two floats up to
 * the quotient, for that of the target, which outweighs all others of a row, has to be rounded once. */
float slope(Row r, uint v, int target, float kd_weight, float g_part, float tokens)
{
    float z = logit(r.row, v), q = exp_of(z - r.all.most) * r.all.inverse;
    Pair s = two_sum(q, int(v) == target ? -1.0 : 0.0);
    s = pair_product(s, Pair(push.a.ce_weight, 0));
    if (S2 != 0 && in_vc(v)) s = pair_add(s, kd_weight * inverse_T * (g_part - share_of(r.q, z) * r.total));
    precise float by = s.hi / tokens;
    if (!is_finite(by)) return s.hi / tokens;
    Pair p = two_product(by, tokens);
    precise float rest = ((s.hi - p.hi) - p.lo) + s.lo;
    precise float better = by + rest / tokens;
    return better;
}

void put_gradient(Row r, int target, float kd_weight, float tokens)
{
    FOR_LANES (v, push.a.V) {
        float g = 0;
        if (S2 == LIST && in_vc(v)) {
            if (is_listed(r.row, v)) continue;
            g = times(r.g_rest, share_of(r.rest, logit(r.row, v)));
        }
        if (S2 == FULL && in_vc(v)) g = full_term(r, v).y;
        put(z_at, r.row, v, S0, slope(r, v, target, kd_weight, g, tokens));
    }
    if (S2 == LIST) FOR_LANES (j, push.a.k)
        if (counts(r.row, j) != 0) {
            uint v = uint(id_of(r.row, j));
            float g = uintBitsToFloat(AtShared(g_at(r.row) + 4 * j).v);
            put(z_at, r.row, v, S0, slope(r, v, target, kd_weight, g, tokens));
        }
}

void tell(uint row, float ce, float div, float top1, float trained, uint unsound)
{
    if (gl_LocalInvocationID.x != 0) return;
    float figures[4] = float[](ce, div, top1, trained);
    for (uint i = 0; i < 4; i++) store_f32(work.at, 8ul * row + i, figures[i]);
    store_u32(work.at, 8ul * row + 4, unsound);
    if (has(CE)) put(slot_of(CE), row, 0, F32, ce);
    if (has(DIV)) put(slot_of(DIV), row, 0, F32, div);
    if (has(TOP1)) put(slot_of(TOP1), row, 0, F32, top1);
}

void one_row(uint row, int target)
{
    Row r = Row(row, NONE, NONE, NONE, NONE, 0, 0);
    uint unsound = 0;
    float div = 0, top1 = 0, tokens = float(load_u32(slot_of(STEP).at, STEP_TOKENS));
    float kd_weight = push.a.kd_weight * (push.a.t2 != 0 ? push.a.T * push.a.T : 1.0);
    int list_best = S2 == LIST ? mark_list(row, unsound) : -1;
    find_maxima(r, unsound);
    uvec2 best = find_sums(r);
    float ce = uint(target) < push.a.V ? r.all.log_sum - (logit(row, uint(target)) - r.all.most) : NAN_F;
    if (S2 == FULL) div = full_terms(r);
    if (S2 == LIST) div = list_terms(r, unsound);
    if (S2 != 0) top1 = best.x != ~0u && (S2 == FULL ? best.x == best.y : int(best.x) == list_best) ? 1.0 : 0.0;
    if (!is_finite(quotient(push.a.ce_weight * ce + kd_weight * div, tokens))) unsound = 1;
    unsound = group_any(unsound);
    if (push.a.grad != 0) put_gradient(r, target, kd_weight, tokens);
    tell(row, ce, div, top1, 1.0, unsound);
}

void main()
{
    Slot targets = slot_of(TARGET);
    z_at = slot_of(LOGITS);
    teacher = slot_of(TEACHER);
    vmask = slot_of(VMASK);
    work = slot_of(WORK);
    inverse_T = quotient(1.0, push.a.T);
    kind = kind_of(push.a.divergence, push.a.mix);
    log_mix = vec2(log_of(push.a.mix), log_of(1.0 - push.a.mix));
    FOR_ITEMS (row, push.a.N) {
        int target = load_i32(targets.at, row * targets.stride);
        if (target >= 0) {
            one_row(row, target);
            continue;
        }
        if (push.a.grad != 0) FOR_LANES (v, push.a.V)
            put(z_at, row, v, S0, 0.0);
        tell(row, 0, 0, 0, 0, 0);
    }
}
