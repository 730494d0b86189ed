LIB_SRCS += $(call files_of,src/exec)
