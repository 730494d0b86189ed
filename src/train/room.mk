# The train room: losses, optimizer, the step.
LIB_SRCS += \
	src/train/checkpoint.c \
	src/train/control.c \
	src/train/dump.c \
	src/train/evaluate.c \
	src/train/evidence_json.c \
	src/train/falsifiers.c \
	src/train/fit.c \
	src/train/fit_need.c \
	src/train/inputs.c \
	src/train/inputs_data.c \
	src/train/loss_plan.c \
	src/train/manifest.c \
	src/train/manifest_files.c \
	src/train/model_card.c \
	src/train/moved.c \
	src/train/output.c \
	src/train/overlap.c \
	src/train/pace.c \
	src/train/pair.c \
	src/train/preview.c \
	src/train/report_data.c \
	src/train/report_page.c \
	src/train/report_samples.c \
	src/train/report_series.c \
	src/train/report_tables.c \
	src/train/report_text.c \
	src/train/resolve.c \
	src/train/run_cost.c \
	src/train/run_cost_print.c \
	src/train/run_files.c \
	src/train/run_fit.c \
	src/train/run_loop.c \
	src/train/run_open.c \
	src/train/run_seal.c \
	src/train/run_smoke.c \
	src/train/run_tune.c \
	src/train/run_verify.c \
	src/train/run_verify_again.c \
	src/train/run_verify_files.c \
	src/train/run_verify_lines.c \
	src/train/run_verify_weights.c \
	src/train/sample_prompts.c \
	src/train/samples.c \
	src/train/schedule.c \
	src/train/sealed.c \
	src/train/settings.c \
	src/train/settings_alias.c \
	src/train/settings_device.c \
	src/train/settings_yaml.c \
	src/train/settings_yaml_write.c \
	src/train/step.c \
	src/train/step_plan.c \
	src/train/teacher_weights.c \
	src/train/tfevents.c
# The page that a report is filled into.
EMBED_SRCS += src/train/report.html
USES += yaml
