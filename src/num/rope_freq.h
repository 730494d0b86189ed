/* rope_freq.h - the inverse-frequency table of rotary embedding, plain or scaled, as the rope ops read it.
 *
 * Owns: the formulas of plain, linear, llama3 and yarn scaling (as transformers computes them). The op itself sees a
 * table of D/2 inverse frequencies and one factor on cos and sin; it knows no scaling by name. */
#ifndef RT_NUM_ROPE_FREQ_H
#define RT_NUM_ROPE_FREQ_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum rt_rope_kind { RT_ROPE_PLAIN, RT_ROPE_LINEAR, RT_ROPE_LLAMA3, RT_ROPE_YARN } rt_rope_kind;

typedef struct rt_rope_scaling {
    rt_rope_kind kind;
    double theta;                  /* base, e.g. 10000 */
    double factor;                 /* all scaled kinds */
    double low_freq, high_freq;    /* llama3: low_freq_factor, high_freq_factor */
    double original_context;       /* llama3, yarn: original_max_position_embeddings */
    double beta_fast, beta_slow;   /* yarn; 0 means 32 and 1 */
    double attention_factor;       /* yarn; 0 means computed from factor (and mscale) */
    double mscale, mscale_all_dim; /* yarn, DeepSeek form; 0 when absent */
    bool no_truncate;              /* yarn `truncate: false`: correction range not rounded to whole dimensions */
} rt_rope_scaling;

/* freq (D/2) f32, scale: factor on cos and sin (1 unless yarn). D even, >= 2. */
int rt_rope_freqs(float *freq, float *scale, uint32_t D, const rt_rope_scaling *s, rt_err *e);

#endif
