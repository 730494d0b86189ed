# The one door: a run from settings to a model on disk, and everything else that a user can ask for.
LIB_SRCS += \
	src/job/audit_checkpoints.c \
	src/job/audit_models.c \
	src/job/audit_run.c \
	src/job/audit_weights.c \
	src/job/control.c \
	src/job/device.c \
	src/job/dump.c \
	src/job/fit.c \
	src/job/fit_need.c \
	src/job/inputs.c \
	src/job/inputs_data.c \
	src/job/moved.c \
	src/job/overlap.c \
	src/job/pace.c \
	src/job/preview.c \
	src/job/resolve.c \
	src/job/run_cost.c \
	src/job/run_cost_print.c \
	src/job/run_evidence.c \
	src/job/run_files.c \
	src/job/run_fit.c \
	src/job/run_folder.c \
	src/job/run_open.c \
	src/job/run_report.c \
	src/job/run_seal.c \
	src/job/run_smoke.c \
	src/job/run_train.c \
	src/job/run_tune.c \
	src/job/sample_prompts.c \
	src/job/samples.c
