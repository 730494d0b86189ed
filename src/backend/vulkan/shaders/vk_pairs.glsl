/* vk_pairs.glsl - the sum over a workgroup of numbers in two floats, by the tree of vk_reduce.glsl. */
#ifndef VK_PAIRS_GLSL
#define VK_PAIRS_GLSL

shared float tree_lo[GROUP];

Pair group_pairs(Pair x)
{
    uint t = gl_LocalInvocationID.x;
    barrier();
    tree_f[t] = x.hi;
    tree_lo[t] = x.lo;
    barrier();
    for (uint n = GROUP / 2; n > 0; n /= 2) {
        if (t < n) {
            Pair s = pair_sum(Pair(tree_f[t], tree_lo[t]), Pair(tree_f[t + n], tree_lo[t + n]));
            tree_f[t] = s.hi;
            tree_lo[t] = s.lo;
        }
        barrier();
    }
    return Pair(tree_f[0], tree_lo[0]);
}

/* The same as one number. */
float group_total(Pair x)
{
    Pair s = group_pairs(x);
    return s.hi + s.lo;
}

/* log(a / b), a and b above 0, without the roundings of a, b and the quotient */
float log_ratio(Pair a, Pair b)
{
    precise float q = a.hi / b.hi;
    Pair p = two_product(q, b.hi);
    precise float lost = ((((a.hi - p.hi) - p.lo) + a.lo) - q * b.lo) / a.hi;
    return log_of(q) + lost;
}

#endif
