# The CPU backend: the device here, its kernels once per instruction set. cpu_blas_guard.c is the Makefile's: how it is
# compiled depends on how OpenBLAS is linked.
LIB_SRCS += \
	src/backend/cpu/cpu_backend.c \
	src/backend/cpu/cpu_dispatch.c

CPU_ISA_SRCS += \
	src/backend/cpu/cpu_attn_bwd.c \
	src/backend/cpu/cpu_attn_decode.c \
	src/backend/cpu/cpu_attn_fwd.c \
	src/backend/cpu/cpu_embed.c \
	src/backend/cpu/cpu_gemm.c \
	src/backend/cpu/cpu_gemm_dots.c \
	src/backend/cpu/cpu_kd.c \
	src/backend/cpu/cpu_optim.c \
	src/backend/cpu/cpu_quant.c \
	src/backend/cpu/cpu_rmsnorm.c \
	src/backend/cpu/cpu_rope.c \
	src/backend/cpu/cpu_rows.c \
	src/backend/cpu/cpu_sample.c \
	src/backend/cpu/cpu_swiglu.c \
	src/backend/cpu/cpu_table.c \
	src/backend/cpu/cpu_topk.c
