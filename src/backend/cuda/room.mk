# The CUDA backend: host code in C on the driver's interface, compiled everywhere; kernels by nvcc, where there is one.
LIB_SRCS += \
	src/backend/cuda/cuda_attn_bwd.c \
	src/backend/cuda/cuda_attn_decode.c \
	src/backend/cuda/cuda_attn_fwd.c \
	src/backend/cuda/cuda_backend.c \
	src/backend/cuda/cuda_choice.c \
	src/backend/cuda/cuda_dequant.c \
	src/backend/cuda/cuda_driver.c \
	src/backend/cuda/cuda_embed.c \
	src/backend/cuda/cuda_gemm.c \
	src/backend/cuda/cuda_image.c \
	src/backend/cuda/cuda_kd.c \
	src/backend/cuda/cuda_lt.c \
	src/backend/cuda/cuda_matmul.c \
	src/backend/cuda/cuda_matmul_own.c \
	src/backend/cuda/cuda_memory.c \
	src/backend/cuda/cuda_module.c \
	src/backend/cuda/cuda_ops.c \
	src/backend/cuda/cuda_options.c \
	src/backend/cuda/cuda_optim.c \
	src/backend/cuda/cuda_policy.c \
	src/backend/cuda/cuda_program.c \
	src/backend/cuda/cuda_quant.c \
	src/backend/cuda/cuda_rmsnorm.c \
	src/backend/cuda/cuda_rope.c \
	src/backend/cuda/cuda_rows.c \
	src/backend/cuda/cuda_sums.c \
	src/backend/cuda/cuda_swiglu.c \
	src/backend/cuda/cuda_trial.c \
	src/backend/cuda/cuda_tune.c \
	src/backend/cuda/cuda_tuned.c
