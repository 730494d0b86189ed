/* presets.c - shapes by name, for models that are made without any file.
 *
 * Owns: the published shapes and a few tiny ones. The tiny ones have a byte-level vocabulary: ids 0 to 255 are bytes,
 * then <|endoftext|>, <|im_start|> and <|im_end|>, then padding up to a multiple of 16. */
#include "format/config.h"

#include <string.h>

typedef struct shape {
    rt_family family;
    uint32_t layers, width, heads, kv_heads, head_dim, hidden, vocab, context, window;
    bool tied;
    double theta, norm_eps;
    double rope_factor; /* of llama3 scaling; 0: plain */
    double init_range;
    int64_t bos, eos, second_eos, pad; /* -1: none */
} shape;

static void fill(rt_model_config *c, const shape *s)
{
    memset(c, 0, sizeof *c);
    c->family = s->family;
    c->layers = s->layers;
    c->width = s->width;
    c->heads = s->heads;
    c->kv_heads = s->kv_heads;
    c->head_dim = s->head_dim;
    c->hidden = s->hidden;
    c->vocab = s->vocab;
    c->context = s->context;
    c->qkv_bias = s->family == RT_FAMILY_QWEN2;
    c->qk_norm = s->family == RT_FAMILY_QWEN3;
    c->tied = s->tied;
    c->norm_eps = s->norm_eps;
    c->init_range = s->init_range;
    c->window = s->window;
    c->rope = (rt_rope_scaling){ .kind = RT_ROPE_PLAIN, .theta = s->theta };
    if (s->rope_factor > 0)
        c->rope = (rt_rope_scaling){ .kind = RT_ROPE_LLAMA3,
                                     .theta = s->theta,
                                     .factor = s->rope_factor,
                                     .low_freq = 1,
                                     .high_freq = 4,
                                     .original_context = 8192 };
    for (uint32_t i = 0; i < s->layers; i++) {
        if (s->window) c->layer_flags[i] |= RT_LAYER_WINDOW;
        if (s->family == RT_FAMILY_SMOLLM3 && (i + 1) % 4 == 0) c->layer_flags[i] |= RT_LAYER_NO_ROPE;
    }
    c->bos = s->bos;
    c->pad = s->pad;
    if (s->eos >= 0) c->eos[c->eos_count++] = s->eos;
    if (s->second_eos >= 0) c->eos[c->eos_count++] = s->second_eos;
}

/* Token ids of the families. */
#define QWEN_IDS 151643, 151643, -1, -1
#define QWEN3_IDS 151643, 151645, -1, -1
#define LLAMA3_IDS 128000, 128001, -1, -1
#define SMOLLM2_IDS 0, 0, -1, -1
#define BYTE_IDS 256, 256, 258, 256

/* id, name, text, tiny, then: family, L, C, H, K, D, F, V, context, window, tied, theta, norm eps, llama3 factor,
 * init range, bos, eos, second eos, pad. As in the published config.json: of the base models, but of the
 * post-trained ones for qwen3 and smollm3. */
#define PRESETS(X)                                                                                                     \
    X(tiny, "tiny", "the same as tiny-qwen2", true, QWEN2, 2, 64, 4, 2, 16, 192, 272, 512, 0, true, 1e4, 1e-6, 0,      \
      0.02, BYTE_IDS)                                                                                                  \
    X(tiny_llama, "tiny-llama", "llama family, bytes, separate head", true, LLAMA, 2, 64, 4, 2, 16, 192, 272, 512, 0,  \
      false, 1e4, 1e-5, 0, 0.02, BYTE_IDS)                                                                             \
    X(tiny_qwen2, "tiny-qwen2", "qwen2 family, bytes, q/k/v biases, tied head", true, QWEN2, 2, 64, 4, 2, 16, 192,     \
      272, 512, 0, true, 1e4, 1e-6, 0, 0.02, BYTE_IDS)                                                                 \
    X(tiny_qwen3, "tiny-qwen3", "qwen3 family, bytes, q/k norms, head width of its own", true, QWEN3, 2, 64, 4, 2, 32, \
      192, 272, 512, 0, true, 1e4, 1e-6, 0, 0.02, BYTE_IDS)                                                            \
    X(tiny_mistral, "tiny-mistral", "mistral family, bytes, sliding window of 32", true, MISTRAL, 2, 64, 4, 2, 16,     \
      192, 272, 512, 32, false, 1e4, 1e-5, 0, 0.02, BYTE_IDS)                                                          \
    X(tiny_smollm3, "tiny-smollm3", "smollm3 family, bytes, every fourth layer without rope", true, SMOLLM3, 4, 64, 4, \
      2, 16, 192, 272, 512, 0, true, 1e4, 1e-6, 0, 0.02, BYTE_IDS)                                                     \
    X(small, "small", "qwen2 family, bytes, 25M parameters: for real experiments on a CPU", true, QWEN2, 8, 512, 8, 4, \
      64, 1536, 272, 2048, 0, true, 1e4, 1e-6, 0, 0.02, BYTE_IDS)                                                      \
    X(qwen25_05b, "qwen2.5-0.5b", "0.49B parameters", false, QWEN2, 24, 896, 14, 2, 64, 4864, 151936, 32768, 0, true,  \
      1e6, 1e-6, 0, 0.02, QWEN_IDS)                                                                                    \
    X(qwen25_15b, "qwen2.5-1.5b", "1.54B parameters", false, QWEN2, 28, 1536, 12, 2, 128, 8960, 151936, 131072, 0,     \
      true, 1e6, 1e-6, 0, 0.02, QWEN_IDS)                                                                              \
    X(qwen25_3b, "qwen2.5-3b", "3.09B parameters", false, QWEN2, 36, 2048, 16, 2, 128, 11008, 151936, 32768, 0, true,  \
      1e6, 1e-6, 0, 0.02, QWEN_IDS)                                                                                    \
    X(qwen25_7b, "qwen2.5-7b", "7.62B parameters", false, QWEN2, 28, 3584, 28, 4, 128, 18944, 152064, 131072, 0,       \
      false, 1e6, 1e-6, 0, 0.02, QWEN_IDS)                                                                             \
    X(qwen25_14b, "qwen2.5-14b", "14.8B parameters", false, QWEN2, 48, 5120, 40, 8, 128, 13824, 152064, 131072, 0,     \
      false, 1e6, 1e-5, 0, 0.02, QWEN_IDS)                                                                             \
    X(qwen3_06b, "qwen3-0.6b", "0.60B parameters", false, QWEN3, 28, 1024, 16, 8, 128, 3072, 151936, 40960, 0, true,   \
      1e6, 1e-6, 0, 0.02, QWEN3_IDS)                                                                                   \
    X(qwen3_17b, "qwen3-1.7b", "1.72B parameters", false, QWEN3, 28, 2048, 16, 8, 128, 6144, 151936, 40960, 0, true,   \
      1e6, 1e-6, 0, 0.02, QWEN3_IDS)                                                                                   \
    X(qwen3_4b, "qwen3-4b", "4.02B parameters", false, QWEN3, 36, 2560, 32, 8, 128, 9728, 151936, 40960, 0, true, 1e6, \
      1e-6, 0, 0.02, QWEN3_IDS)                                                                                        \
    X(qwen3_8b, "qwen3-8b", "8.19B parameters", false, QWEN3, 36, 4096, 32, 8, 128, 12288, 151936, 40960, 0, false,    \
      1e6, 1e-6, 0, 0.02, QWEN3_IDS)                                                                                   \
    X(llama32_1b, "llama-3.2-1b", "1.24B parameters", false, LLAMA, 16, 2048, 32, 8, 64, 8192, 128256, 131072, 0,      \
      true, 5e5, 1e-5, 32, 0.02, LLAMA3_IDS)                                                                           \
    X(llama32_3b, "llama-3.2-3b", "3.21B parameters", false, LLAMA, 28, 3072, 24, 8, 128, 8192, 128256, 131072, 0,     \
      true, 5e5, 1e-5, 32, 0.02, LLAMA3_IDS)                                                                           \
    X(llama31_8b, "llama-3.1-8b", "8.03B parameters", false, LLAMA, 32, 4096, 32, 8, 128, 14336, 128256, 131072, 0,    \
      false, 5e5, 1e-5, 8, 0.02, LLAMA3_IDS)                                                                           \
    X(smollm2_135m, "smollm2-135m", "0.13B parameters, llama family", false, LLAMA, 30, 576, 9, 3, 64, 1536, 49152,    \
      8192, 0, true, 1e5, 1e-5, 0, 0.041666666666666664, SMOLLM2_IDS)                                                  \
    X(smollm2_360m, "smollm2-360m", "0.36B parameters, llama family", false, LLAMA, 32, 960, 15, 5, 64, 2560, 49152,   \
      8192, 0, true, 1e5, 1e-5, 0, 0.02, SMOLLM2_IDS)                                                                  \
    X(smollm2_17b, "smollm2-1.7b", "1.71B parameters, llama family", false, LLAMA, 24, 2048, 32, 32, 64, 8192, 49152,  \
      8192, 0, true, 130000, 1e-5, 0, 0.02, SMOLLM2_IDS)                                                               \
    X(smollm3_3b, "smollm3-3b", "3.08B parameters, every fourth layer without rope", false, SMOLLM3, 36, 2048, 16, 4,  \
      128, 11008, 128256, 65536, 0, true, 5e6, 1e-6, 0, 0.02, 128000, 128012, -1, 128004)                              \
    X(mistral_7b, "mistral-7b", "7.25B parameters, as v0.3: no window", false, MISTRAL, 32, 4096, 32, 8, 128, 14336,   \
      32768, 32768, 0, false, 1e6, 1e-5, 0, 0.02, 1, 2, -1, -1)

#define X(id, name, text, tiny, family, ...)                                                                           \
    static void fill_##id(rt_model_config *c)                                                                          \
    {                                                                                                                  \
        static const shape s = { RT_FAMILY_##family, __VA_ARGS__ };                                                    \
        fill(c, &s);                                                                                                   \
    }
PRESETS(X)
#undef X

static const rt_preset presets[] = {
#define X(id, name, text, tiny, family, ...) { name, text, fill_##id, tiny },
    PRESETS(X)
#undef X
};

const rt_preset *rt_presets(uint32_t *count)
{
    *count = sizeof presets / sizeof presets[0];
    return presets;
}

const rt_preset *rt_preset_find(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
    }
    return NULL;
}
