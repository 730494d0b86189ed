# The base room: status and messages, memory, strings, threads, the machine, hashing.
LIB_SRCS += $(call files_of,src/base)
