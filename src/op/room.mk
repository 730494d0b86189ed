LIB_SRCS += \
	src/op/op_spec.c \
	src/op/region.c \
	src/op/space.c \
	src/op/plan.c \
	src/op/check_dtypes.c \
	src/op/record.c \
	src/op/lifetime.c \
	src/op/emit_layer.c \
	src/op/emit_attn.c \
	src/op/emit_rows.c \
	src/op/emit_loss.c \
	src/op/emit_optim.c \
	src/op/op_cost.c \
	src/op/plan_print.c \
	src/op/plan_json.c \
	src/op/plan_hash.c
