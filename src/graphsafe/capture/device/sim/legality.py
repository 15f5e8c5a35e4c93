"""The errors with which a capture refuses an operation, and their messages.

There are two kinds. If the CUDA runtime refuses, the capture becomes invalid: every later operation on its streams
fails, and so does `capture_end`. With torch <= 2.11, the generator then stays in the capturing state. If one of
PyTorch's own checks refuses, CUDA does not see the operation and the capture goes on. The messages are those of torch
2.11 on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from graphsafe.optable import Effect


@dataclass(frozen=True, slots=True)
class Refusal:
    message: str
    invalidates: bool = True

    def error(self) -> Exception:
        kind: type[Exception] = getattr(torch, "AcceleratorError", RuntimeError) if self.invalidates else RuntimeError
        return kind(self.message)


NOT_PERMITTED = Refusal("CUDA error: operation not permitted when stream is capturing")
EVENT_IN_CAPTURE = Refusal("CUDA error: operation not permitted on an event last recorded in a capturing stream")
EARLIER_ERROR = Refusal("CUDA error: operation failed due to a previous error during capture")
UNCAPTURED_WORK = Refusal("CUDA error: dependency created on uncaptured work in another stream")
LEGACY_STREAM = Refusal("CUDA error: operation would make the legacy stream depend on a capturing blocking stream")
UNJOINED = Refusal("CUDA error: capturing stream has unjoined work")
PAGEABLE = Refusal(
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use "
    "tensor.pin_memory() or allocate the tensor with pin_memory=True.",
    invalidates=False,
)
UNREGISTERED = Refusal("Attempt to increase offset for a CUDA generator not in capture mode.", invalidates=False)
LEFT_CAPTURING = Refusal("Offset increment outside graph capture encountered unexpectedly.", invalidates=False)
RESEEDED = Refusal(
    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the "
    "original seed.",
    invalidates=False,
)
OFFSET_ASKED = Refusal(
    "Cannot call CUDAGeneratorImpl::get_offset during CUDA graph capture. If you need this call to be captured, please "
    "file an issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive",
    invalidates=False,
)


def of_hidden_wait(effect: Effect) -> Refusal:
    return PAGEABLE if effect.pageable else NOT_PERMITTED


def of_transfer(pinned: bool, non_blocking: bool) -> Refusal | None:
    """Return the error with which a copy is refused, or None. PyTorch refuses pageable memory; CUDA refuses a wait."""
    if not pinned:
        return PAGEABLE
    return None if non_blocking else NOT_PERMITTED
