# The CUDA backend: host code in C on the driver's interface, compiled everywhere; kernels by nvcc, where there is one.
LIB_SRCS += $(call files_of,src/backend/cuda) $(call files_of,src/backend/cuda/libs)
