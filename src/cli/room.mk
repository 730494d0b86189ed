CLI_SRCS += $(call files_of,src/cli)
