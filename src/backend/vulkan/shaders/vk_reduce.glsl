/* vk_reduce.glsl - sums and extremes over a workgroup: a fixed tree in shared memory, whatever the subgroups are. All
 * invocations call these together and get the same answer. */
#ifndef VK_REDUCE_GLSL
#define VK_REDUCE_GLSL

shared float tree_f[GROUP];
shared uint tree_u[GROUP];

#define VK_TREE(name, type, tree, join)                                                                                \
    type name(type x)                                                                                                  \
    {                                                                                                                  \
        uint t = gl_LocalInvocationID.x;                                                                               \
        barrier(); /* whoever still reads the last answer */                                                           \
        tree[t] = x;                                                                                                   \
        barrier();                                                                                                     \
        for (uint n = GROUP / 2; n > 0; n /= 2) {                                                                      \
            if (t < n) tree[t] = join(tree[t], tree[t + n]);                                                           \
            barrier();                                                                                                 \
        }                                                                                                              \
        return tree[0];                                                                                                \
    }
#define VK_PLUS(a, b) ((a) + (b))
#define VK_OR(a, b) ((a) | (b))
VK_TREE(group_sum, float, tree_f, VK_PLUS)
VK_TREE(group_max, float, tree_f, max) /* of numbers: no NaN */
VK_TREE(group_most, uint, tree_u, max)
VK_TREE(group_least, uint, tree_u, min)
VK_TREE(group_any, uint, tree_u, VK_OR)
VK_TREE(group_count, uint, tree_u, VK_PLUS)

#endif
