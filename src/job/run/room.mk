# A run: from settings to a model on disk, resumable at any moment.
LIB_SRCS += \
	src/job/run/control.c \
	src/job/run/dump.c \
	src/job/run/moved.c \
	src/job/run/run_cost.c \
	src/job/run/run_cost_print.c \
	src/job/run/run_evidence.c \
	src/job/run/run_files.c \
	src/job/run/run_fit.c \
	src/job/run/run_folder.c \
	src/job/run/run_open.c \
	src/job/run/run_report.c \
	src/job/run/run_seal.c \
	src/job/run/run_smoke.c \
	src/job/run/run_train.c \
	src/job/run/sample_prompts.c \
	src/job/run/samples.c
