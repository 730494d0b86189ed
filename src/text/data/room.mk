# What a model has for text; data sets: records, token shards, order and packing; link zlib and zstd.
LIB_SRCS += $(call files_of,src/text/data)
USES += zstd
