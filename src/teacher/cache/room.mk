# What a teacher has said, on disk: keys, blocks, codes, files of them.
LIB_SRCS += $(call files_of,src/teacher/cache)
