CLI_SRCS += \
	src/cli/main.c \
	src/cli/args.c \
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
	src/cli/convert_run.c \
	src/cli/device_arg.c \
	src/cli/inspect_print.c \
	src/cli/model_arg.c \
	src/cli/preview_print.c \
	src/cli/progress.c \
	src/cli/run_end.c \
	src/cli/run_print.c \
	src/cli/text_arg.c \
	src/cli/tokenize_run.c \
	src/cli/tokenize_show.c \
	src/cli/audit_print.c \
	src/cli/visible.c
