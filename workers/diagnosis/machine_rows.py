"""What says that a machine is at fault: drivers, libraries, memory, as data, of any runtime."""

from __future__ import annotations

from enginefarm.state import Blame
from workers.diagnosis.row import Row, Runtime

NODE = Blame.NODE

ROWS: tuple[Row, ...] = (
    Row(
        r"libnvinfer\S*\.so|libtensorrt\S*\.so|libcudart\S*\.so",
        "backend_missing",
        "A library of TensorRT or CUDA is missing on the node, or two versions are mixed.",
        "Install the backend's packages again, in one version.",
        blame=NODE,
    ),
    Row(
        r"libcudnn\S*\.so|libcublas\S*\.so|CUDNN_STATUS_NOT_INITIALIZED|CUDNN failure"
        r"|Failed to create CUDAExecutionProvider|onnxruntime_providers_cuda",
        "provider_missing",
        "ONNX Runtime's CUDA provider does not load: cuDNN or CUDA are missing or of another"
        " version.",
        "Install the onnxruntime that matches the node's CUDA and cuDNN.",
        Runtime.ONNXRUNTIME,
        NODE,
    ),
    Row(
        # On an H200 with 0.7 GiB left; cuDNN itself gives no better reason.
        r"CUDNN_FE failure 11|CUDNN_BACKEND_API_FAILED",
        "out_of_memory",
        "A step of cuDNN could not run, as happens where the GPU's memory is nearly full.",
        "See what else holds the GPU's memory; if it is free, bring cuDNN to the version of the"
        " runtime.",
        Runtime.ONNXRUNTIME,
        NODE,
    ),
    Row(
        r"CUDA failure 2\b|CUDA error(?: code)?:? ?2\b|cudaErrorMemoryAllocation"
        r"|CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory|error: 2\b|CU(BLAS|DNN)_STATUS_ALLOC_FAILED"
        r"|cuMem(Alloc_v2|HostAlloc) answered 2\b",
        "out_of_memory",
        "The GPU's memory ran out: something else held it, or the model needs more than it has.",
        "Reduce the profile's max or the workspace, let nothing else run on the GPU, or use one"
        " with more memory.",
        blame=NODE,
    ),
    Row(
        r"[Nn][Vv][Ii][Dd][Ii][Aa]-[Ss][Mm][Ii] has failed|Failed to initialize NVML",
        "driver_too_old",
        "The NVIDIA driver is not loaded on the node: after a kernel update, or by Secure Boot.",
        "Load the driver, and start the node again.",
        blame=NODE,
    ),
    Row(
        r"CUDA_ERROR_NOT_FOUND|invalid device context|CUDA_ERROR_INVALID_VALUE|named symbol not"
        r" found",
        "engine_incompatible",
        "The engine does not go with the driver: it was changed since the engine was built.",
        "Build again with the driver that shall run it.",
        blame=NODE,
    ),
    Row(
        r"CUDA failure (?:35|100|222)\b|no CUDA-capable device|unsupported toolchain"
        r"|factory function returned nullptr|CUDA driver version is insufficient",
        "driver_too_old",
        "The NVIDIA driver here is too old, or the GPU is not visible.",
        "Update the driver of the node, or expose the GPU to the container.",
        blame=NODE,
    ),
    Row(
        r"has no attribute '(?:FP16|BF16|INT8|EXPLICIT_BATCH|max_workspace_size|fp16_mode"
        r"|IInt8EntropyCalibrator2)'",
        "backend_version_differs",
        "The node's code is for another major version of TensorRT than is installed.",
        "Bring the node's packages to the farm's version.",
        blame=NODE,
    ),
    Row(
        r"No space left on device|ENOSPC",
        "disk_full",
        "The node's disk is full.",
        "Make room on the node; nothing else is wrong.",
        blame=NODE,
    ),
)
