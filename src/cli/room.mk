CLI_SRCS += \
	src/cli/main.c \
	src/cli/args.c \
	src/cli/cmd_doctor.c \
	src/cli/cmd_verify.c
