# What a model has for text; data sets: records, token shards, order and packing; link zlib and zstd.
LIB_SRCS += \
	src/text/data/data_align.c \
	src/text/data/data_encode.c \
	src/text/data/data_order.c \
	src/text/data/data_prompt.c \
	src/text/data/data_record.c \
	src/text/data/data_rows.c \
	src/text/data/data_shard.c \
	src/text/data/data_shard_set.c \
	src/text/data/data_shard_write.c \
	src/text/data/data_source.c \
	src/text/data/data_split.c \
	src/text/data/data_stream.c \
	src/text/data/data_text.c \
	src/text/data/data_tokenize.c \
	src/text/data/data_units.c \
	src/text/data/model_text.c \
	src/text/data/model_text_files.c \
	src/text/data/model_text_special.c \
	src/text/data/ollama_modelfile.c \
	src/text/data/vocab_text.c
USES += zstd
