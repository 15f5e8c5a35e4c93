"""The environment variables that reports record: those in a fixed list, and those that the configuration names."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

_RECORDED = re.compile(
    r"(CUDA_(VISIBLE_DEVICES|LAUNCH_BLOCKING|MODULE_LOADING|DEVICE_MAX_CONNECTIONS|DEVICE_ORDER)|PYTORCH_(CUDA_|HIP_)?ALLOC_CONF"
    r"|PYTORCH_NO_CUDA_MEMORY_CACHING|TORCH_(COMPILE|LOGS|CUDNN)\w*|TORCHDYNAMO_\w+|TORCHINDUCTOR_\w+|NCCL_(?!.*(KEY|TOKEN))\w+"
    r"|CUBLAS_WORKSPACE_CONFIG|OMP_NUM_THREADS|TRITON_INTERPRET|NVIDIA_TF32_OVERRIDE"
    r"|(?!\w*(KEY|TOKEN|SECRET|PASSWORD))(\w*CUDA_?GRAPHS?\w*"
    r"|(VLLM|SGLANG|SGL|FLASHINFER)_\w*(GRAPH|ATTENTION|ATTN|EAGER|COMPILE|MLA|MOE|BACKEND|KERNEL)\w*))"
)


def recorded(extra: Collection[str]) -> dict[str, str]:
    """Return the recorded variables of this process, sorted by name. `extra` has the names from the configuration."""
    return {name: os.environ[name] for name in sorted(os.environ) if _RECORDED.fullmatch(name) or name in extra}
