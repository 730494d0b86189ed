CLI_SRCS += \
	src/cli/main.c \
	src/cli/args.c \
	src/cli/audit_print.c \
	src/cli/cmd_convert.c \
	src/cli/cmd_distill.c \
	src/cli/cmd_doctor.c \
	src/cli/cmd_eval.c \
	src/cli/cmd_generate.c \
	src/cli/cmd_init.c \
	src/cli/cmd_inspect.c \
	src/cli/cmd_report.c \
	src/cli/cmd_tokenize.c \
	src/cli/cmd_verify.c \
	src/cli/convert_print.c \
	src/cli/environment.c \
	src/cli/help.c \
	src/cli/inspect_print.c \
	src/cli/preview_print.c \
	src/cli/print.c \
	src/cli/progress.c \
	src/cli/run_end.c \
	src/cli/run_print.c
