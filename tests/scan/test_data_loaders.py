"""Batches of data loaders: their tensors are on the host until the training loop copies them to the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

LOOP = """\
import torch
from accelerate import Accelerator
from project.data import make_dataset, make_train_loader
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, train_loader, optimizer, backprop, device):
        self.backprop = backprop
        self.model, self.train_loader, self.optimizer, self.device = model, train_loader, optimizer, device

    def epoch(self):
        for x, y in self.train_loader:
            {moves}
            self.optimizer.zero_grad()
            self.backprop(self.model(x).sub(y).square().mean())
            self.optimizer.step()


def train(model, optimizer, device, loader):
    {made}
    for i, batch in enumerate(loader):
        {taken}
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def scores(model, data_loader, device):
    return [model(x.to(device)) for x in data_loader]
"""


def copies(folder: Path, moves: str = "pass", made: str = "pass", taken: str = "x = batch") -> list[str]:
    """Return the lines with an error or a warning about a copy to the device."""
    (folder / "train.py").write_text(LOOP.format(moves=moves, made=made, taken=taken), encoding="utf-8")
    lines = (folder / "train.py").read_text(encoding="utf-8").splitlines()
    findings = scan_paths([folder], Config(root=folder)).findings
    return [lines[f.location.line - 1].strip() for f in findings if f.code == "GS304" and f.level != "note"]


@pytest.mark.parametrize("move", ["x.to(self.device)", "x.cuda()", "x.to(device=self.device, dtype=torch.half)"])
def test_a_batch_of_the_trainers_loader_is_copied_in_each_step(tmp_path: Path, move: str) -> None:
    assert copies(tmp_path, moves=f"x = {move}") == [f"x = {move}"]


@pytest.mark.parametrize("move", ["x.to(self.device, non_blocking=True)", "x.cuda(non_blocking=True)", "x.half()"])
def test_a_copy_that_does_not_block_and_a_cast_are_quiet(tmp_path: Path, move: str) -> None:
    assert copies(tmp_path, moves=f"x = {move}") == []


@pytest.mark.parametrize(
    "made",
    [
        "pass",
        "loader = DataLoader(make_dataset(), batch_size=8, shuffle=True)",
        "loader = make_train_loader(8)",
    ],
)
@pytest.mark.parametrize(
    "taken",
    [
        'x = batch["x"].to(device)',
        "x = batch[0].cuda()",
        "x = batch.features.to(device)",
        "x = {k: v.to(device) for k, v in batch.items()}",
        'x = batch.to(device)["x"]',
    ],
)
def test_parts_of_a_batch_are_on_the_host(tmp_path: Path, made: str, taken: str) -> None:
    assert copies(tmp_path, made=made, taken=taken) == [taken]


@pytest.mark.parametrize(
    "made",
    [
        "loader = Accelerator().prepare(DataLoader(make_dataset(), batch_size=8))",
        "model, loader = Accelerator().prepare(model, loader)",
        'loader = DataLoader(TensorDataset(torch.randn(64, 4, device="cuda")), batch_size=8)',
    ],
)
def test_batches_that_are_on_the_device_already_are_quiet(tmp_path: Path, made: str) -> None:
    assert copies(tmp_path, made=made, taken='x = batch["x"].to(device)') == []


def test_a_collated_batch_is_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(COLLATED, encoding="utf-8")
    lines = COLLATED.splitlines()
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    found = [lines[f.location.line - 1].strip() for f in findings if f.code == "GS304" and f.level != "note"]
    assert found == ["x = default_collate(samples).to(self.device)"]


COLLATED = """\
import torch
from torch.utils.data import default_collate


class Agent:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer, self.device = model, optimizer, device

    def update(self, samples):
        x = default_collate(samples).to(self.device)
        loss = self.model(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
