"""Describes the machine for a report: versions, devices, and an allow-list of environment variables."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence

from graphsafe.capture.answers.build import Platform
from graphsafe.report.model import Environment

_RECORDED = re.compile(
    r"(CUDA_(VISIBLE_DEVICES|LAUNCH_BLOCKING|MODULE_LOADING|DEVICE_MAX_CONNECTIONS|DEVICE_ORDER)|PYTORCH_(CUDA_|HIP_)?ALLOC_CONF"
    r"|PYTORCH_NO_CUDA_MEMORY_CACHING|TORCH_(COMPILE|LOGS|CUDNN)\w*|TORCHDYNAMO_\w+|TORCHINDUCTOR_\w+|NCCL_(?!.*(KEY|TOKEN))\w+"
    r"|CUBLAS_WORKSPACE_CONFIG|OMP_NUM_THREADS|TRITON_INTERPRET|NVIDIA_TF32_OVERRIDE"
    r"|(?!\w*(KEY|TOKEN|SECRET|PASSWORD))(\w*CUDA_?GRAPHS?\w*"
    r"|(VLLM|SGLANG|SGL|FLASHINFER)_\w*(GRAPH|ATTENTION|ATTN|EAGER|COMPILE|MLA|MOE|BACKEND|KERNEL)\w*))"
)


def environment(built: Sequence[Platform], facts: str, extra: Sequence[str]) -> Environment:
    """Return the report's environment. `built` has the torch version and the device of each build child. `extra` has
    further names of variables, from the configuration."""
    first = next(iter(built), Platform())
    settings = {name: value for name, value in os.environ.items() if _RECORDED.fullmatch(name) or name in extra}
    return Environment(
        python=platform.python_version(),
        torch=first.torch,
        cuda=first.cuda,
        driver=first.driver,
        devices=tuple(dict.fromkeys(one.device for one in built if one.device)),
        facts=facts,
        settings=dict(sorted(settings.items())),
        libraries=dict(sorted(first.libraries.items())),
    )
