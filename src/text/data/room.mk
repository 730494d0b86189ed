# What a model has for text; data sets: records, token shards, order and packing.
LIB_SRCS += $(call files_of,src/text/data)
