"""The numbers, layouts and symbol names that src/backend/cuda declares for itself are those of NVIDIA's headers.

Host code is compiled without those headers, so this is where a slip would show. Where a machine has none, there is
nothing to compare with, and the test says so.
"""
import os
import re
import subprocess
import tempfile

from checks import check, finish, read

CC = os.environ.get("CC", "gcc")
ROOTS = [os.environ.get("CUDA_PATH", ""), "/usr/local/cuda", "/opt/cuda", "/usr"]
NUMBERS = {  # ours: theirs
    "RT_CU_OUT_OF_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY", "RT_CU_STUB_LIBRARY": "CUDA_ERROR_STUB_LIBRARY",
    "RT_CU_INVALID_IMAGE": "CUDA_ERROR_INVALID_IMAGE", "RT_CU_NO_BINARY": "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "RT_CU_INVALID_PTX": "CUDA_ERROR_INVALID_PTX", "RT_CU_NO_JIT_COMPILER": "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    "RT_CU_UNSUPPORTED_PTX": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "RT_CU_NO_DEVICE": "CUDA_ERROR_NO_DEVICE", "RT_CU_JIT_DISABLED": "CUDA_ERROR_JIT_COMPILATION_DISABLED",
    "RT_CU_DRIVER_MISMATCH": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "RT_CU_ATTR_MULTIPROCESSORS": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
    "RT_CU_ATTR_INTEGRATED": "CU_DEVICE_ATTRIBUTE_INTEGRATED",
    "RT_CU_ATTR_CAPABILITY_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    "RT_CU_ATTR_CAPABILITY_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
    "RT_CU_ATTR_SHARED_OPTIN": "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "RT_CU_FUNC_REGISTERS": "CU_FUNC_ATTRIBUTE_NUM_REGS",
    "RT_CU_FUNC_SHARED_DYNAMIC": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    "RT_CU_STREAM_NON_BLOCKING": "CU_STREAM_NON_BLOCKING", "RT_CU_EVENT_NO_TIMING": "CU_EVENT_DISABLE_TIMING",
    "RT_CU_ATTACH_GLOBAL": "CU_MEM_ATTACH_GLOBAL", "RT_CU_CAPTURE_THREAD_LOCAL": "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",
    "RT_CU_NODE_KERNEL": "CU_GRAPH_NODE_TYPE_KERNEL", "RT_CU_JIT_ERROR_LOG": "CU_JIT_ERROR_LOG_BUFFER",
    "RT_CU_JIT_ERROR_LOG_BYTES": "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
    "RT_CU_MAP_BF16": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", "RT_CU_MAP_SWIZZLE_128": "CU_TENSOR_MAP_SWIZZLE_128B",
    "RT_CU_MAP_L2_256": "CU_TENSOR_MAP_L2_PROMOTION_L2_256B", "sizeof(rt_cuda_tensor_map)": "sizeof(CUtensorMap)",
    "RT_CU_LAUNCH_CLUSTER": "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
    "RT_CU_LAUNCH_OVERLAP": "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",
    "sizeof(rt_cu_launch)": "sizeof(CUlaunchConfig)", "offsetof(rt_cu_launch, stream)": "offsetof(CUlaunchConfig, hStream)",
    "offsetof(rt_cu_launch, nattributes)": "offsetof(CUlaunchConfig, numAttrs)",
    "sizeof(rt_cu_launch_attribute)": "sizeof(CUlaunchAttribute)",
    "offsetof(rt_cu_launch_attribute, value)": "offsetof(CUlaunchAttribute, value)",
    "RT_LT_F32": "CUDA_R_32F", "RT_LT_F16": "CUDA_R_16F", "RT_LT_BF16": "CUDA_R_16BF",
    "RT_LT_COMPUTE_F32": "CUBLAS_COMPUTE_32F", "RT_LT_DESC_TRANS_A": "CUBLASLT_MATMUL_DESC_TRANSA",
    "RT_LT_DESC_TRANS_B": "CUBLASLT_MATMUL_DESC_TRANSB", "RT_LT_DESC_EPILOGUE": "CUBLASLT_MATMUL_DESC_EPILOGUE",
    "RT_LT_DESC_BIAS": "CUBLASLT_MATMUL_DESC_BIAS_POINTER", "RT_LT_DESC_BIAS_TYPE": "CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE",
    "RT_LT_E4M3": "CUDA_R_8F_E4M3", "RT_LT_DESC_FAST_ACCUM": "CUBLASLT_MATMUL_DESC_FAST_ACCUM",
    "RT_LT_DESC_SCALE_A": "CUBLASLT_MATMUL_DESC_A_SCALE_POINTER", "RT_LT_DESC_SCALE_B": "CUBLASLT_MATMUL_DESC_B_SCALE_POINTER",
    "RT_LT_DESC_SCALE_MODE_A": "CUBLASLT_MATMUL_DESC_A_SCALE_MODE", "RT_LT_DESC_SCALE_MODE_B": "CUBLASLT_MATMUL_DESC_B_SCALE_MODE",
    "RT_LT_SCALE_ROWS": "CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F",
    "RT_LT_TRANSPOSE": "CUBLAS_OP_T", "RT_LT_EPILOGUE_BIAS": "CUBLASLT_EPILOGUE_BIAS",
    "RT_LT_PREF_WORK_BYTES": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES",
    "RT_LT_PREF_REDUCTIONS": "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK",
    "RT_LT_PREF_ALIGN_A": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES",
    "RT_LT_PREF_ALIGN_A + 3": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES",
    "RT_LT_REDUCTION_COMPUTE_TYPE": "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE",
    "RT_LT_CONFIG_ID": "CUBLASLT_ALGO_CONFIG_ID", "RT_LT_CONFIG_TILE": "CUBLASLT_ALGO_CONFIG_TILE_ID",
    "RT_LT_CONFIG_SPLIT_K": "CUBLASLT_ALGO_CONFIG_SPLITK_NUM", "RT_LT_CONFIG_SWIZZLE": "CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING",
    "RT_LT_CONFIG_CUSTOM": "CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION", "RT_LT_CONFIG_STAGES": "CUBLASLT_ALGO_CONFIG_STAGES_ID",
    "RT_LT_CONFIG_CLUSTER": "CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID",
    "RT_LT_CONFIG_INNER": "CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID",
    "RT_LT_CONFIG_REDUCTION": "CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME",
    "sizeof(rt_cu_ptr)": "sizeof(CUdeviceptr)", "sizeof(rt_cu_device)": "sizeof(CUdevice)",
    "sizeof(rt_cu_kernel_params)": "sizeof(CUDA_KERNEL_NODE_PARAMS)",
    "offsetof(rt_cu_kernel_params, kernel)": "offsetof(CUDA_KERNEL_NODE_PARAMS, kern)",
    "RT_NCCL_SUCCESS": "ncclSuccess", "RT_NCCL_IN_PROGRESS": "ncclInProgress", "RT_NCCL_BYTE": "ncclUint8", "RT_NCCL_F32": "ncclFloat32",
    "RT_NCCL_SUM": "ncclSum", "sizeof(rt_nccl_id)": "sizeof(ncclUniqueId)", "sizeof(rt_nccl_comm)": "sizeof(ncclComm_t)",
    "sizeof(rt_lt_algo)": "sizeof(cublasLtMatmulAlgo_t)", "sizeof(rt_lt_choice)": "sizeof(cublasLtMatmulHeuristicResult_t)",
    "offsetof(rt_lt_choice, state)": "offsetof(cublasLtMatmulHeuristicResult_t, state)",
}

include = next((f"{root}/include" for root in ROOTS if root and os.path.exists(f"{root}/include/cublasLt.h")
                and os.path.exists(f"{root}/include/cuda.h") and os.path.exists(f"{root}/include/nccl.h")), None)
ours = "src/backend/cuda/libs/cuda_driver.h", "src/backend/cuda/libs/cuda_lt.h", "src/backend/cuda/libs/cuda_nccl.h"
declared = set(re.findall(r"\b(RT_(?:CU|LT|NCCL)_[A-Z0-9_]+) = -?\d", "".join(read(p) for p in ours)))
compared = {word for key in NUMBERS for word in re.findall(r"RT_\w+", key)}
for name in sorted(declared - compared - {"RT_CU_SUCCESS"}):
    check(False, f"{name} is declared, and nothing compares it with NVIDIA's headers")


def builds(text):
    """What the compiler says against the text; empty when it takes it."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as f:
        f.write('#include <stddef.h>\n#include <cuda.h>\n#include <cublasLt.h>\n#include "backend/cuda/libs/cuda_driver.h"\n'
                '#include "backend/cuda/kernels/cuda_tensor_map.h"\n'
                '#include "backend/cuda/libs/cuda_lt.h"\n#include "backend/cuda/libs/cuda_nccl.h"\n#include <nccl.h>\n' + text)
        f.flush()
        done = subprocess.run([CC, "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Isrc", "-isystem", include, f.name],
                              capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or "refused"


def symbols(path):
    """Names that a list binds: (name without a version, whole name)."""
    return [(re.sub(r"_v\d+$", "", s), s) for s in re.findall(r"^\s*X\(\w+, ((?:cu|nccl)\w+)", read(path), re.M)]


def check_each(lines):
    """One case for each (text, message): all at once, and one by one when that fails."""
    together = builds("".join(text for text, _ in lines))
    for text, message in lines:
        said = builds(text) if together else ""
        check(not said, f"{message}: {said}")


if include:
    check_each([(f'_Static_assert({mine} == (unsigned){theirs}, "differs");\n', f"{mine} is not {theirs} of {include}")
                for mine, theirs in NUMBERS.items()])
    check(builds('_Static_assert(RT_LT_BF16 == CUDA_R_16F, "differs");\n') != "", "a difference is not seen")
    for header, path in (("cuda.h", ours[0]), ("cublasLt.h", ours[1]), ("nccl.h", ours[2])):
        text = read(f"{include}/{header}")
        check_each([(f"static void *use_{plain}(void) {{ return (void *){plain}; }}\n", f"{plain} is not in {header}")
                    for plain, _ in symbols(path)])
        for plain, name in symbols(path):
            if name != plain:
                newer = re.search(rf"#\s*define {plain}\s+(?:__CUDA_API_PT\w+\()?{plain}(_v\d+)?", text)
                check(newer is not None, f"{name}: {header} has no such version of {plain}")
else:
    check(True, "")
    print("no cuda.h, cublasLt.h and nccl.h here: nothing to compare with")
finish()
