# The reference backend. The families are compiled for float and for double; the rest once.
REF_SRCS += \
	src/backend/ref/ref_attn.c \
	src/backend/ref/ref_embed.c \
	src/backend/ref/ref_kd.c \
	src/backend/ref/ref_matmul.c \
	src/backend/ref/ref_optim.c \
	src/backend/ref/ref_rmsnorm.c \
	src/backend/ref/ref_rope.c \
	src/backend/ref/ref_rows.c \
	src/backend/ref/ref_sample.c \
	src/backend/ref/ref_swiglu.c \
	src/backend/ref/ref_topk.c

LIB_SRCS += \
	src/backend/ref/ref_backend.c \
	src/backend/ref/ref_operand.c \
	src/backend/ref/ref_table.c
