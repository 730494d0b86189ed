# The CPU backend: the device here, its kernels once per instruction set. cpu_blas_guard.c is the Makefile's: how it is
# compiled depends on how OpenBLAS is linked.
CPU_HOST_SRCS := $(addprefix src/backend/cpu/,cpu_backend.c cpu_blas_core.c cpu_dispatch.c)
LIB_SRCS += $(CPU_HOST_SRCS)
CPU_ISA_SRCS += $(filter-out $(CPU_HOST_SRCS) %/cpu_blas_guard.c,$(call files_of,src/backend/cpu))
CPU_DOT_SRCS += src/backend/cpu/cpu_int8_rows.c
