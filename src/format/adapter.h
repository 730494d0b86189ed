/* adapter.h - a LoRA folder as an input: where its base model is, and the adapter laid over that.
 *
 * Owns: the search for the base, the names of an adapter's tensors, and that the two belong together. What
 * adapter_config.json says is hf/hf_adapter.c; opening the base is model_file.c; the sum itself is tensor/tensor.h. */
#ifndef RT_FORMAT_ADAPTER_H
#define RT_FORMAT_ADAPTER_H

#include "format/model_file.h"

/* The configuration of the adapter in folder, with its base found: env->base where given, else the path or org/name of
 * adapter_config.json. RT_NOT_FOUND says what was looked for, and where. */
int rt_adapter_find(rt_adapter **out, const char *folder, const rt_hub_env *env, rt_arena *a, rt_err *e);
/* m: the base, opened. Its matrices become merged ones, and its text the adapter's where that has a tokenizer.
 * RT_FORMAT or RT_INVALID for an adapter that is damaged or of another base. */
int rt_adapter_lay(rt_model_file *m, rt_adapter *adapter, rt_err *e);

/* The adapter of m alone, as a GGUF file that llama.cpp takes beside its base (adapter_write.c). d: f32, f16 or bf16.
 * bytes: of the file. */
int rt_adapter_write_gguf(const rt_model_file *m, const char *path, rt_dtype d, bool replace, uint64_t *bytes,
                          rt_err *e);

#endif
