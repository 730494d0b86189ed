# The one door: a run from settings to a model on disk, and everything else that a user can ask for.
LIB_SRCS += \
	src/job/audit_checkpoints.c \
	src/job/audit_models.c \
	src/job/audit_run.c \
	src/job/audit_weights.c \
	src/job/device.c \
	src/job/job_convert.c \
	src/job/job_evaluate.c \
	src/job/job_generate.c \
	src/job/job_init.c \
	src/job/job_inspect.c \
	src/job/job_output.c \
	src/job/job_run.c \
	src/job/job_tokenize.c \
	src/job/job_words.c \
	src/job/overlap.c \
	src/job/preview.c
