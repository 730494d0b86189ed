/* vk_args.glsl - the argument structs of op/args.h, member by member; tests/structure/test_shaders.py compares them. */
#ifndef VK_ARGS_GLSL
#define VK_ARGS_GLSL

struct rt_embed_args {
    uint N, V, C;
};

struct rt_rmsnorm_args {
    uint N, H, D;
    float eps;
};

struct rt_matmul_args {
    uint M, N, K;
    uint ta, tb;
    float alpha;
};

struct rt_rows_args {
    uint N, C;
    uint R;
    float alpha;
    uint site;
};

struct rt_slice_args {
    uint C, R;
    uint first, count;
    uint most;
};

struct rt_rope_args {
    uint N, H, D;
    float scale;
};

struct rt_attn_args {
    uint B, T, H, K, D;
    uint window;
    float scale;
    uint rounded;
};

struct rt_decode_args {
    uint B, Q, S, H, K, D;
    uint window;
    float scale;
    uint page;
};

struct rt_swiglu_args {
    uint N, F;
};

struct rt_kd_args {
    uint N, V;
    uint U;
    uint k;
    uint divergence;
    float T;
    float mix;
    float ce_weight, kd_weight;
    uint t2;
    uint grad;
    uint site;
};

struct rt_adamw_args {
    uint N, C;
    float beta1, beta2, eps, weight_decay;
    uint moments;
    uint stream, row;
};

struct rt_clip_args {
    float max_norm;
    uint site;
};

struct rt_topk_args {
    uint N, V, k;
    float T;
};

struct rt_sample_args {
    uint N, V;
};

struct rt_dropout_args {
    uint N, C;
    float p;
    uint stream;
};

struct rt_draw_args {
    uint N, V, n;
    float T;
};

struct rt_mix_args {
    uint N, V, U;
    float T, w;
};

#endif
