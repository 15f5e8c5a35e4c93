"""Hashes tensors on their own device, many at once, because a step's state consists of hundreds of small tensors.

A hash is made from two sums over the 64-bit words of a tensor's bytes, in which each word is weighted by its position.
The hash does not depend on which tensors are hashed together.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from graphsafe.capture.device.bits import bytes_digest

_GROUP_WORDS = 1 << 21
"Number of words that are hashed together. Intermediate results take several times as much memory as these words."
_WORD = 8


@dataclass(frozen=True, slots=True)
class _Piece:
    tensor: int
    "The index of the tensor."
    data: torch.Tensor
    first: int
    "The position of this piece's first word in the tensor."

    @property
    def words(self) -> int:
        return -(-self.data.numel() // _WORD)


def digests(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return the hash of each tensor, by path."""
    with torch.inference_mode():
        plain = {path: tensor.detach().contiguous().reshape(-1).view(torch.uint8) for path, tensor in tensors.items()}
        heads = {path: f"{tensor.dtype}{tuple(tensor.shape)}" for path, tensor in tensors.items()}
        there: dict[torch.device, list[str]] = {}
        for path, data in plain.items():
            there.setdefault(data.device, []).append(path)
        found: dict[str, str] = {}
        for device, paths in there.items():
            if device.type == "cpu":
                found |= {path: heads[path] + bytes_digest(plain[path]) for path in paths}
                continue
            sums = word_sums([plain[path] for path in paths]).tolist()
            for path, both in zip(paths, sums, strict=True):
                found[path] = hashlib.blake2b(f"{heads[path]}{both}".encode(), digest_size=12).hexdigest()
    return {path: found[path] for path in tensors}


def word_sums(data: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return two sums for each of these byte tensors, which are all on one device."""
    totals = torch.zeros(len(data), 2, dtype=torch.int64, device=data[0].device)
    for group in _groups(data):
        words, place = _laid_out(group)
        first = words * (place * 2 + 1)
        second = (words ^ (words >> 29)) * (place * 0x5851F42D4C957F2D | 1)
        numbers = torch.tensor([piece.tensor for piece in group], device=totals.device)
        totals.index_add_(0, numbers, torch.stack([_by_piece(first, group), _by_piece(second, group)], dim=1))
    return totals


def _groups(data: Sequence[torch.Tensor]) -> Iterator[list[_Piece]]:
    group: list[_Piece] = []
    room = _GROUP_WORDS
    for number, whole in enumerate(data):
        for start in range(0, whole.numel(), _GROUP_WORDS * _WORD):
            piece = _Piece(number, whole[start : start + _GROUP_WORDS * _WORD], start // _WORD)
            if piece.words > room:
                yield group
                group, room = [], _GROUP_WORDS
            group.append(piece)
            room -= piece.words
    if group:
        yield group


def _laid_out(group: Sequence[_Piece]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the words of all pieces, padded with zeros, and the position of each word in its tensor."""
    device = group[0].data.device
    padding = torch.zeros(_WORD, dtype=torch.uint8, device=device)
    parts = [part for piece in group for part in (piece.data, padding[: -piece.data.numel() % _WORD])]
    words = torch.cat([part for part in parts if part.numel()]).view(torch.int64)
    lengths = [piece.words for piece in group]
    begins = [0, *itertools.accumulate(lengths)][:-1]
    offsets = [piece.first - begin for piece, begin in zip(group, begins, strict=True)]
    offset, length = torch.tensor([offsets, lengths], device=device)
    return words, torch.arange(len(words), device=device) + offset.repeat_interleave(length, output_size=len(words))


def _by_piece(values: torch.Tensor, group: Sequence[_Piece]) -> torch.Tensor:
    """Return the sum of the values of each piece, modulo 2 ** 64."""
    ends = torch.tensor(list(itertools.accumulate(piece.words for piece in group))) - 1
    totals = values.cumsum(0)[ends.to(values.device)]
    return totals - torch.cat([totals.new_zeros(1), totals[:-1]])
