"""Measure which dtypes CUDA has no kernel for though the CPU has one, and write rules/ops/no-cuda-kernel-2.11.json.

PyTorch's own test samples (`op_db`) are run on the CPU and then on the GPU, for each dtype. Where the CPU computes a
sample and CUDA says that there is no kernel, the aten operation that said so is noted with the dtype of its first
tensor. An operation counts as missing for a dtype only where no sample of that dtype ran.

    python scripts/measure_dtypes.py OUTPUT.json      # needs one CUDA device and expecttest; two minutes on 8 cores
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
)  # fmt: skip
WORKERS = 8
SAMPLES = 3
NO_KERNEL = ("not implemented for", "Could not run", "not supported for", "is not currently supported", "no kernel")
Counts = dict[tuple[str, str], int]


class Last(TorchDispatchMode):
    """The last aten operation, and the dtypes that all of them had."""

    def __init__(self) -> None:
        super().__init__()
        self.key: tuple[str, str] | None = None
        self.ran: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = next((one for one in _tensors([args, kwargs or {}])), None)
        self.key = (func._schema.name, str(first.dtype).removeprefix("torch.")) if first is not None else None
        result = func(*args, **(kwargs or {}))
        if self.key is not None:
            self.ran.append(self.key)
        return result


def _computes(sample: Any) -> bool:
    """Whether no tensor of a sample is empty: on empty ones no kernel is asked for."""
    return all(tensor.numel() for tensor in _tensors([sample.input, list(sample.args), sample.kwargs]))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for item in value for one in _tensors(item)] if isinstance(value, (list, tuple)) else []


def measure(start: int) -> tuple[Counts, Counts]:
    """Return how often each (operation, dtype) ran and had no kernel on CUDA, for every WORKERS-th entry."""
    warnings.simplefilter("ignore")
    ran: Counts = defaultdict(int)
    missing: Counts = defaultdict(int)
    for op in op_db[start::WORKERS]:
        for dtype in DTYPES:
            outcomes: list[bool] = []
            for device in ("cpu", "cuda"):
                try:
                    samples = [one for one in op.sample_inputs(device, dtype, requires_grad=False) if _computes(one)]
                    samples = samples[:SAMPLES]
                except Exception:
                    break
                for index, sample in enumerate(samples):
                    if device == "cuda" and (index >= len(outcomes) or not outcomes[index]):
                        continue
                    last = Last()
                    try:
                        with last:
                            op.op(sample.input, *sample.args, **sample.kwargs)
                        worked = True
                    except Exception as error:
                        worked = False
                        if device == "cuda" and last.key is not None and any(text in str(error) for text in NO_KERNEL):
                            missing[last.key] += 1
                        if device == "cuda" and "CUDA error" in str(error):
                            return dict(ran), dict(missing)
                    if device == "cpu":
                        outcomes.append(worked)
                    else:
                        for key in last.ran:
                            ran[key] += 1
    return dict(ran), dict(missing)


def main() -> int:
    ran: Counts = defaultdict(int)
    missing: Counts = defaultdict(int)
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        for some_ran, some_missing in pool.map(measure, range(WORKERS)):
            for key, number in some_ran.items():
                ran[key] += number
            for key, number in some_missing.items():
                missing[key] += number
    refused: dict[str, list[str]] = defaultdict(list)
    for name, dtype in sorted(missing):
        if (name, dtype) not in ran:
            refused[name].append(dtype)
    found = {
        "schema": "graphsafe/no-kernel/1",
        "measured": {"torch": torch.__version__, "device": torch.cuda.get_device_name()},
        "no_kernel": dict(refused),
    }
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1)
        out.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
