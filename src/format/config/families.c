/* families.c - the families, a row of traits each (family.h), and shapes of them by name.
 *
 * Owns: all that the project knows of a family, and the published shapes beside a few tiny ones. The tiny ones have a
 * byte-level vocabulary: ids 0 to 255 are bytes, then <|endoftext|>, <|im_start|> and <|im_end|>, then padding up to a
 * multiple of 16. */
#include "format/config/config.h"

#include <stdio.h>
#include <string.h>

/* Defaults are those of the configuration classes of transformers 4.57 and 5.x, which agree: L, C, H, K, D, F, V,
 * context, window, theta, tied, bos, eos, pad. */

static const rt_family llama = {
    .name = "llama",
    .hf_class = "LlamaForCausalLM",
    .gguf = "llama",
    .bias = RT_BIAS_KEY,
    .windows = RT_WINDOW_NONE,
    .mlp_bias = true,
    .head_dim_key = true,
    .gguf_swaps_rows = true,
    .gguf_rope_freqs = true,
    .gguf_biases = true,
    .is_70b = RT_70B_GROUPED,
    .defaults = { 32, 4096, 32, 0, 0, 11008, 32000, 2048, 0, 1e4, false, 1, 2, -1 },
};

static const rt_family qwen2 = {
    .name = "qwen2",
    .hf_class = "Qwen2ForCausalLM",
    .gguf = "qwen2",
    .bias = RT_BIAS_QKV,
    .windows = RT_WINDOW_UPPER,
    .alias = "qwen2.5",
    .is_70b = RT_70B_ANY,
    .defaults = { 32, 4096, 32, 32, 0, 22016, 151936, 32768, 4096, 1e4, false, -1, -1, -1 },
};

static const rt_family qwen3 = {
    .name = "qwen3",
    .hf_class = "Qwen3ForCausalLM",
    .gguf = "qwen3",
    .bias = RT_BIAS_KEY,
    .windows = RT_WINDOW_UPPER,
    .qk_norm = true,
    .head_dim_key = true,
    .defaults = { 32, 4096, 32, 32, 128, 22016, 151936, 32768, 4096, 1e4, false, -1, -1, -1 },
};

static const rt_family mistral = {
    .name = "mistral",
    .hf_class = "MistralForCausalLM",
    .gguf = "llama",
    .bias = RT_BIAS_NONE,
    .windows = RT_WINDOW_ALL,
    .head_dim_key = true,
    .gguf_swaps_rows = true,
    .gguf_rope_freqs = true,
    .is_70b = RT_70B_GROUPED,
    .defaults = { 32, 4096, 32, 8, 0, 14336, 32000, 131072, 4096, 1e4, false, 1, 2, -1 },
};

static const rt_family smollm3 = {
    .name = "smollm3",
    .hf_class = "SmolLM3ForCausalLM",
    .gguf = "smollm3",
    .bias = RT_BIAS_KEY,
    .windows = RT_WINDOW_NO_ROPE,
    .mlp_bias = true,
    .no_rope_every = 4,
    .gguf_swaps_rows = true,
    .defaults = { 36, 2048, 16, 4, 0, 11008, 128256, 32768, 0, 2e6, true, 128000, 128001, 128004 },
};

const rt_family *const rt_families[] = { &llama, &qwen2, &qwen3, &mistral, &smollm3, NULL };

const rt_family *rt_family_find(const char *name)
{
    const rt_family *const *f = rt_families;
    while (*f && strcmp((*f)->name, name) != 0) f++;
    return *f;
}

const char *rt_family_list(char *buf, size_t size, bool gguf)
{
    size_t used = 0;
    for (const rt_family *const *f = rt_families; *f && used < size; f++) {
        const rt_family *const *same = rt_families;
        while (strcmp((*same)->gguf, (*f)->gguf) != 0) same++;
        if (gguf && same != f) continue;
        used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", gguf ? (*f)->gguf : (*f)->name);
    }
    return buf;
}

/* ---- shapes by name ---- */

#define QWEN2_IDS .bos = 151643, .eos = 151643
#define QWEN3_IDS .bos = 151643, .eos = 151645
#define LLAMA3_IDS .bos = 128000, .eos = 128001
#define SMOLLM2_IDS .bos = 0, .eos = 0
#define BYTE_IDS .bos = 256, .eos = 256, .second_eos = 258, .pad = 256, .tiny = true

/* As in the published config.json: of the base models, but of the post-trained ones for qwen3 and smollm3. */
static const rt_preset presets[] = {
    /* L, C, H, K, D, F, V, context, theta, norm eps, tied, ids */
    { "tiny", "the same as tiny-qwen2", &qwen2, 2, 64, 4, 2, 16, 192, 272, 512, 1e4, 1e-6, true, BYTE_IDS },
    { "tiny-llama", "llama family, bytes, separate head", &llama, 2, 64, 4, 2, 16, 192, 272, 512, 1e4, 1e-5, false,
      BYTE_IDS },
    { "tiny-qwen2", "qwen2 family, bytes, q/k/v biases, tied head", &qwen2, 2, 64, 4, 2, 16, 192, 272, 512, 1e4, 1e-6,
      true, BYTE_IDS },
    { "tiny-qwen3", "qwen3 family, bytes, q/k norms, head width of its own", &qwen3, 2, 64, 4, 2, 32, 192, 272, 512,
      1e4, 1e-6, true, BYTE_IDS },
    { "tiny-mistral", "mistral family, bytes, sliding window of 32", &mistral, 2, 64, 4, 2, 16, 192, 272, 512, 1e4,
      1e-5, false, BYTE_IDS, .window = 32 },
    { "tiny-smollm3", "smollm3 family, bytes, every fourth layer without rope", &smollm3, 4, 64, 4, 2, 16, 192, 272,
      512, 1e4, 1e-6, true, BYTE_IDS },
    { "small", "qwen2 family, bytes, 25M parameters: for real experiments on a CPU", &qwen2, 8, 512, 8, 4, 64, 1536,
      272, 2048, 1e4, 1e-6, true, BYTE_IDS },
    { "qwen2.5-0.5b", "0.49B parameters", &qwen2, 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6, true, QWEN2_IDS },
    { "qwen2.5-1.5b", "1.54B parameters", &qwen2, 28, 1536, 12, 2, 128, 8960, 151936, 131072, 1e6, 1e-6, true,
      QWEN2_IDS },
    { "qwen2.5-3b", "3.09B parameters", &qwen2, 36, 2048, 16, 2, 128, 11008, 151936, 32768, 1e6, 1e-6, true,
      QWEN2_IDS },
    { "qwen2.5-7b", "7.62B parameters", &qwen2, 28, 3584, 28, 4, 128, 18944, 152064, 131072, 1e6, 1e-6, false,
      QWEN2_IDS },
    { "qwen2.5-14b", "14.8B parameters", &qwen2, 48, 5120, 40, 8, 128, 13824, 152064, 131072, 1e6, 1e-5, false,
      QWEN2_IDS },
    { "qwen2.5-32b", "32.8B parameters", &qwen2, 64, 5120, 40, 8, 128, 27648, 152064, 131072, 1e6, 1e-5, false,
      QWEN2_IDS },
    { "qwen3-0.6b", "0.60B parameters", &qwen3, 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6, 1e-6, true, QWEN3_IDS },
    { "qwen3-1.7b", "1.72B parameters", &qwen3, 28, 2048, 16, 8, 128, 6144, 151936, 40960, 1e6, 1e-6, true, QWEN3_IDS },
    { "qwen3-4b", "4.02B parameters", &qwen3, 36, 2560, 32, 8, 128, 9728, 151936, 40960, 1e6, 1e-6, true, QWEN3_IDS },
    { "qwen3-8b", "8.19B parameters", &qwen3, 36, 4096, 32, 8, 128, 12288, 151936, 40960, 1e6, 1e-6, false, QWEN3_IDS },
    { "llama-3.2-1b", "1.24B parameters", &llama, 16, 2048, 32, 8, 64, 8192, 128256, 131072, 5e5, 1e-5, true,
      LLAMA3_IDS, .llama3_factor = 32 },
    { "llama-3.2-3b", "3.21B parameters", &llama, 28, 3072, 24, 8, 128, 8192, 128256, 131072, 5e5, 1e-5, true,
      LLAMA3_IDS, .llama3_factor = 32 },
    { "llama-3.1-8b", "8.03B parameters", &llama, 32, 4096, 32, 8, 128, 14336, 128256, 131072, 5e5, 1e-5, false,
      LLAMA3_IDS, .llama3_factor = 8 },
    { "smollm2-135m", "0.13B parameters, llama family", &llama, 30, 576, 9, 3, 64, 1536, 49152, 8192, 1e5, 1e-5, true,
      SMOLLM2_IDS, .init_range = 0.041666666666666664 },
    { "smollm2-360m", "0.36B parameters, llama family", &llama, 32, 960, 15, 5, 64, 2560, 49152, 8192, 1e5, 1e-5, true,
      SMOLLM2_IDS },
    { "smollm2-1.7b", "1.71B parameters, llama family", &llama, 24, 2048, 32, 32, 64, 8192, 49152, 8192, 130000, 1e-5,
      true, SMOLLM2_IDS },
    { "smollm3-3b", "3.08B parameters, every fourth layer without rope", &smollm3, 36, 2048, 16, 4, 128, 11008, 128256,
      65536, 5e6, 1e-6, true, .bos = 128000, .eos = 128012, .pad = 128004 },
    { "mistral-7b", "7.25B parameters, as v0.3: no window", &mistral, 32, 4096, 32, 8, 128, 14336, 32768, 32768, 1e6,
      1e-5, false, .bos = 1, .eos = 2 },
};

void rt_preset_fill(const rt_preset *p, rt_model_config *c)
{
    *c = (rt_model_config){ .family = p->family,
                            .layers = p->layers,
                            .width = p->width,
                            .heads = p->heads,
                            .kv_heads = p->kv_heads,
                            .head_dim = p->head_dim,
                            .hidden = p->hidden,
                            .vocab = p->vocab,
                            .context = p->context,
                            .qkv_bias = p->family->bias == RT_BIAS_QKV,
                            .qk_norm = p->family->qk_norm,
                            .tied = p->tied,
                            .norm_eps = p->norm_eps,
                            .rope = { .kind = RT_ROPE_PLAIN, .theta = p->theta },
                            .window = p->window,
                            .init_range = p->init_range != 0 ? p->init_range : 0.02,
                            .bos = p->bos,
                            .pad = p->pad ? p->pad : -1,
                            .eos = { p->eos, p->second_eos },
                            .eos_count = p->second_eos ? 2 : 1 };
    if (p->llama3_factor != 0)
        c->rope = (rt_rope_scaling){ .kind = RT_ROPE_LLAMA3,
                                     .theta = p->theta,
                                     .factor = p->llama3_factor,
                                     .low_freq = 1,
                                     .high_freq = 4,
                                     .original_context = 8192 };
    rt_config_usual_layers(c);
}

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
