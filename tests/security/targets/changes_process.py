"""Targets that change the process that they run in, or leave something behind."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import torch


def _step(device: torch.device, act: Callable[[], Any]) -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor]]:
    weight = torch.ones(4, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        act()
        return x * weight

    return step, (torch.ones(4, device=device),)


def root_directory(device: torch.device) -> Any:
    return _step(device, lambda: os.chroot("/proc/self/fdinfo"))


def file_size(device: torch.device) -> Any:
    return _step(device, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))


def open_files(device: torch.device) -> Any:
    return _step(device, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)))


def user(device: torch.device) -> Any:
    return _step(device, lambda: os.seteuid(65534))


def forks(device: torch.device) -> Any:
    return _step(device, os.fork)


def shared_memory(device: torch.device) -> Any:
    kept: list[SharedMemory] = []

    def keep() -> None:
        name = f"{os.environ['GRAPHSAFE_TEST_SEGMENTS']}_{os.getpid()}_{len(kept)}"
        kept.append(SharedMemory(name, create=True, size=4096))

    return _step(device, keep)
