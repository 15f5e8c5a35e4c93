"""The probes' own reads and writes of tensors: stores, poison, digests, and stirring the allocator."""

from __future__ import annotations

import hashlib

import torch

from graphsafe.capture.tensor_bytes import bytes_digest

_CHUNK_WORDS = 1 << 23
_BLOCKS = (512, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20)
"Sizes that fall into both of the allocator's pools, small and large."


def store(tensor: torch.Tensor, values: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        tensor.detach().copy_(values)


def poison(tensor: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.detach().fill_(float("nan"))
        elif tensor.dtype == torch.bool:
            tensor.detach().logical_not_()
        else:
            tensor.detach().fill_(torch.iinfo(tensor.dtype).max - 3)


def digest(tensor: torch.Tensor) -> str:
    """Two sums over the words of the bytes, each word weighed by its place, computed where the tensor is."""
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        head = f"{tensor.dtype}{tuple(tensor.shape)}"
        if not tensor.is_cuda:
            return head + bytes_digest(data)
        whole = data.numel() // 8 * 8
        parts = [
            _sums(data[:whole].clone().view(torch.int64) if data.data_ptr() % 8 else data[:whole].view(torch.int64))
        ]
        tail = data[whole:].to(torch.int64)
        parts.append(_sums(tail))
        sums = torch.stack(parts).flatten().tolist()
    return hashlib.blake2b(f"{head}{sums}".encode(), digest_size=12).hexdigest()


def _sums(words: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(2, dtype=torch.int64, device=words.device)
    for start in range(0, words.numel(), _CHUNK_WORDS):
        part = words[start : start + _CHUNK_WORDS]
        place = torch.arange(start, start + part.numel(), device=words.device) * 2 + 1
        total[0:1] += (part * place).sum()
        total[1:2] += ((part ^ (part >> 29)) * (place * 0x5851F42D4C957F2D | 1)).sum()
    return total


def churn(device: torch.device, *streams: torch.cuda.Stream) -> None:
    """On every stream that the step may have freed blocks on: an address that the graph still reads but nobody owns any
    more then holds NaN."""
    for stream in (torch.cuda.current_stream(device), *streams):
        with torch.cuda.stream(stream):
            blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in _BLOCKS for _ in range(4)]
            for block in blocks:
                block.fill_(0xFF)
            torch.cuda.synchronize(device)
            del blocks
