# The format room: safetensors, GGUF, APR, config.json, and one directory of tensors over all of them.
LIB_SRCS += \
	src/format/apr_layout.c \
	src/format/apr_meta.c \
	src/format/apr_meta_write.c \
	src/format/apr_read.c \
	src/format/apr_vocab.c \
	src/format/config_check.c \
	src/format/config_json.c \
	src/format/config_json_write.c \
	src/format/config_layers.c \
	src/format/config_rope.c \
	src/format/content_hash.c \
	src/format/convert.c \
	src/format/convert_check.c \
	src/format/gguf_config.c \
	src/format/gguf_get.c \
	src/format/gguf_keys_write.c \
	src/format/gguf_kv.c \
	src/format/gguf_layout.c \
	src/format/gguf_read.c \
	src/format/gguf_rope.c \
	src/format/gguf_text.c \
	src/format/gguf_types.c \
	src/format/hf_dir.c \
	src/format/hub.c \
	src/format/init_random.c \
	src/format/json_text.c \
	src/format/metrics.c \
	src/format/mix.c \
	src/format/model_file.c \
	src/format/model_part.c \
	src/format/model_write.c \
	src/format/names.c \
	src/format/presets.c \
	src/format/safetensors.c \
	src/format/safetensors_layout.c \
	src/format/tensor.c \
	src/format/tensor_file.c \
	src/format/write_fill.c \
	src/format/write_hf.c
USES += z
