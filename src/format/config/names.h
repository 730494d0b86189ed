/* names.h - every parameter of a decoder: its role, its name in each format, its shape. One table.
 *
 * Owns: the mapping role <-> Hugging Face name <-> GGUF name, and which roles a configuration has. The canonical name
 * of a tensor is the Hugging Face one; APR uses it too. */
#ifndef RT_FORMAT_NAMES_H
#define RT_FORMAT_NAMES_H

#include "format/config/config.h"

/* role, 'g' once per model or 'l' once per layer, Hugging Face name (after "model.layers.N." for 'l'), GGUF name (after
 * "blk.N." for 'l'), rows, columns; rows and columns are letters of the dimensions: V C F, Q = heads x head_dim,
 * P = kv_heads x head_dim, D = head_dim; '1' as rows: a vector of `columns` elements */
#define RT_ROLE_LIST(X)                                                                                                \
    X(EMBED, 'g', "model.embed_tokens.weight", "token_embd.weight", 'V', 'C')                                          \
    X(ATTN_NORM, 'l', "input_layernorm.weight", "attn_norm.weight", '1', 'C')                                          \
    X(Q, 'l', "self_attn.q_proj.weight", "attn_q.weight", 'Q', 'C')                                                    \
    X(Q_BIAS, 'l', "self_attn.q_proj.bias", "attn_q.bias", '1', 'Q')                                                   \
    X(K, 'l', "self_attn.k_proj.weight", "attn_k.weight", 'P', 'C')                                                    \
    X(K_BIAS, 'l', "self_attn.k_proj.bias", "attn_k.bias", '1', 'P')                                                   \
    X(V, 'l', "self_attn.v_proj.weight", "attn_v.weight", 'P', 'C')                                                    \
    X(V_BIAS, 'l', "self_attn.v_proj.bias", "attn_v.bias", '1', 'P')                                                   \
    X(Q_NORM, 'l', "self_attn.q_norm.weight", "attn_q_norm.weight", '1', 'D')                                          \
    X(K_NORM, 'l', "self_attn.k_norm.weight", "attn_k_norm.weight", '1', 'D')                                          \
    X(O, 'l', "self_attn.o_proj.weight", "attn_output.weight", 'C', 'Q')                                               \
    X(O_BIAS, 'l', "self_attn.o_proj.bias", "attn_output.bias", '1', 'C')                                              \
    X(MLP_NORM, 'l', "post_attention_layernorm.weight", "ffn_norm.weight", '1', 'C')                                   \
    X(GATE, 'l', "mlp.gate_proj.weight", "ffn_gate.weight", 'F', 'C')                                                  \
    X(GATE_BIAS, 'l', "mlp.gate_proj.bias", "ffn_gate.bias", '1', 'F')                                                 \
    X(UP, 'l', "mlp.up_proj.weight", "ffn_up.weight", 'F', 'C')                                                        \
    X(UP_BIAS, 'l', "mlp.up_proj.bias", "ffn_up.bias", '1', 'F')                                                       \
    X(DOWN, 'l', "mlp.down_proj.weight", "ffn_down.weight", 'C', 'F')                                                  \
    X(DOWN_BIAS, 'l', "mlp.down_proj.bias", "ffn_down.bias", '1', 'C')                                                 \
    X(FINAL_NORM, 'g', "model.norm.weight", "output_norm.weight", '1', 'C')                                            \
    X(HEAD, 'g', "lm_head.weight", "output.weight", 'V', 'C')

typedef enum rt_role {
#define X(role, per, hf, gguf, rows, cols) RT_ROLE_##role,
    RT_ROLE_LIST(X)
#undef X
        RT_ROLE_COUNT,
    RT_ROLE_NONE = RT_ROLE_COUNT
} rt_role;

enum { RT_NAME_BYTES = 96 }; /* any name below fits, with its terminator */

/* Whether a model of this shape has the role (tied models have no HEAD). */
bool rt_role_present(const rt_model_config *c, rt_role r);
bool rt_role_per_layer(rt_role r);
/* A matrix (rank 2) or a vector (rank 1): shape[0..rank), outermost first; returns the rank. */
uint32_t rt_role_shape(const rt_model_config *c, rt_role r, uint64_t shape[2]);
/* In GGUF the q and k rows (weights and biases) of some families are stored in another order; the number of heads to
 * swap over, or 0. */
uint32_t rt_role_swap_heads(const rt_model_config *c, rt_role r);
/* buf (RT_NAME_BYTES); layer is not looked at for a role that is not per layer. Return buf. */
char *rt_role_hf_name(char *buf, rt_role r, uint32_t layer);
char *rt_role_gguf_name(char *buf, rt_role r, uint32_t layer);
/* RT_ROLE_NONE when the name is not one of the table. */
rt_role rt_role_of_hf(const char *name, uint32_t *layer);
rt_role rt_role_of_gguf(const char *name, uint32_t *layer);
/* Parameters of the whole model, each counted once; false on overflow. */
bool rt_config_parameters(const rt_model_config *c, uint64_t *out);

/* All parameters of a model in their one order: EMBED, the layers' in order of the table, FINAL_NORM, HEAD. i counts
 * from 0; false when i is past the last. */
bool rt_param_at(const rt_model_config *c, uint32_t i, rt_role *r, uint32_t *layer);
uint32_t rt_param_count(const rt_model_config *c);

#endif
