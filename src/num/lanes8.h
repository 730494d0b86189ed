/* lanes8.h - eight floats side by side, the same arithmetic on every machine.
 *
 * Internal to num/. Owns: the handful of operations that the search for scales is written in. Every lane is rounded by
 * itself and no operation is contracted, so a result does not depend on which of the two forms below computed it. */
#ifndef RT_NUM_LANES8_H
#define RT_NUM_LANES8_H

#include <stdint.h>
#include <string.h>

#define RT_LANE_FN static inline __attribute__((always_inline, unused))
enum { LANES = 8 };

#ifdef __AVX2__
#include <immintrin.h>

typedef __m256 lanes;
typedef __m256 lane_mask; /* all ones or all zeros */

RT_LANE_FN lanes set8(float x) { return _mm256_set1_ps(x); }
RT_LANE_FN lanes load8(const float *p) { return _mm256_loadu_ps(p); }
RT_LANE_FN void store8(float *p, lanes v) { _mm256_storeu_ps(p, v); }
RT_LANE_FN lanes add8(lanes a, lanes b) { return _mm256_add_ps(a, b); }
RT_LANE_FN lanes sub8(lanes a, lanes b) { return _mm256_sub_ps(a, b); }
RT_LANE_FN lanes mul8(lanes a, lanes b) { return _mm256_mul_ps(a, b); }
RT_LANE_FN lanes div8(lanes a, lanes b) { return _mm256_div_ps(a, b); }
RT_LANE_FN lanes min8(lanes a, lanes b) { return _mm256_min_ps(a, b); }
RT_LANE_FN lanes max8(lanes a, lanes b) { return _mm256_max_ps(a, b); }
RT_LANE_FN lane_mask less8(lanes a, lanes b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
RT_LANE_FN lane_mask either8(lane_mask a, lane_mask b) { return _mm256_or_ps(a, b); }
RT_LANE_FN lanes select8(lane_mask m, lanes a, lanes b) { return _mm256_blendv_ps(b, a, m); } /* m ? a : b */
#else

typedef float rt_vec4 __attribute__((vector_size(16)));
typedef int32_t rt_mask4 __attribute__((vector_size(16)));
typedef struct lanes {
    rt_vec4 a, b;
} lanes;
typedef struct lane_mask {
    rt_mask4 a, b;
} lane_mask;

RT_LANE_FN rt_vec4 choose4(rt_mask4 m, rt_vec4 a, rt_vec4 b)
{
    return (rt_vec4)((m & (rt_mask4)a) | (~m & (rt_mask4)b));
}
RT_LANE_FN lanes set8(float x) { return (lanes){ { x, x, x, x }, { x, x, x, x } }; }
RT_LANE_FN lanes load8(const float *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}
RT_LANE_FN void store8(float *p, lanes v) { memcpy(p, &v, sizeof v); }
RT_LANE_FN lanes add8(lanes x, lanes y) { return (lanes){ x.a + y.a, x.b + y.b }; }
RT_LANE_FN lanes sub8(lanes x, lanes y) { return (lanes){ x.a - y.a, x.b - y.b }; }
RT_LANE_FN lanes mul8(lanes x, lanes y) { return (lanes){ x.a * y.a, x.b * y.b }; }
RT_LANE_FN lanes div8(lanes x, lanes y) { return (lanes){ x.a / y.a, x.b / y.b }; }
RT_LANE_FN lane_mask less8(lanes x, lanes y) { return (lane_mask){ x.a < y.a, x.b < y.b }; }
RT_LANE_FN lane_mask either8(lane_mask x, lane_mask y) { return (lane_mask){ x.a | y.a, x.b | y.b }; }
RT_LANE_FN lanes select8(lane_mask m, lanes x, lanes y)
{
    return (lanes){ choose4(m.a, x.a, y.a), choose4(m.b, x.b, y.b) };
}
/* Of equals, and where one is not a number, the second: as the instructions above do. */
RT_LANE_FN lanes min8(lanes x, lanes y) { return select8(less8(x, y), x, y); }
RT_LANE_FN lanes max8(lanes x, lanes y) { return select8(less8(y, x), x, y); }
#endif

/* Nearest integer, ties to even; |t| < 2^22. */
RT_LANE_FN lanes round8(lanes t)
{
    const lanes magic = set8(0x1.8p23f);
    return sub8(add8(t, magic), magic);
}

#endif
