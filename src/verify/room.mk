# The verify room: the op cases, the comparison, and the run over them that `retort verify` stands on.
LIB_SRCS += \
	src/verify/cases_attn.c \
	src/verify/cases_choice.c \
	src/verify/cases_embed.c \
	src/verify/cases_kd.c \
	src/verify/cases_matmul.c \
	src/verify/cases_optim.c \
	src/verify/cases_rmsnorm.c \
	src/verify/cases_rope.c \
	src/verify/cases_rows.c \
	src/verify/cases_swiglu.c \
	src/verify/compare.c \
	src/verify/coverage.c \
	src/verify/fills.c \
	src/verify/generate.c \
	src/verify/harness.c \
	src/verify/large.c \
	src/verify/large_cases.c \
	src/verify/ops.c \
	src/verify/signature.c \
	src/verify/tolerance.c \
	src/verify/values.c \
	src/verify/op_suite.c
# Derivatives against differences, and a whole decoder.
LIB_SRCS += $(sort $(wildcard src/verify/grad*.c src/verify/block*.c))
