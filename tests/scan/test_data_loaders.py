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


@pytest.mark.parametrize(
    ("name", "found"), [("data_loader_train", True), ("train_iter", True), ("weight_loader", False)]
)
def test_a_name_shows_a_loader_or_its_iterator(tmp_path: Path, name: str, found: bool) -> None:
    source = f"""\
def fit(model, {name}, optimizer, device):
    for x in {name}:
        x = x.to(device)
        model(x).mean().backward()
        optimizer.step()
"""
    (tmp_path / "fit.py").write_text(source, encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [(f.code, f.location.line) for f in findings if f.level != "note"] == ([("GS304", 3)] if found else [])


@pytest.mark.parametrize(("name", "level"), [("batched_inputs", "error"), ("inputs", "note")])
def test_models_of_detectron2_move_their_inputs(tmp_path: Path, name: str, level: str) -> None:
    source = f"""\
import torch


class Meta(torch.nn.Module):
    def forward(self, {name}):
        images = [one["image"].to(self.device) for one in {name}]
        return torch.stack(images)
"""
    (tmp_path / "meta.py").write_text(source, encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert all(f.level == level for f in findings if f.code == "GS304")
    assert level == "note" or [f.location.line for f in findings if f.code == "GS304"] == [6]


@pytest.mark.parametrize(
    ("use", "trains", "found"),
    [
        ("x = batch[0].to(self.device)", True, True),
        ("x = [one.cuda() for one in batch][0]", True, True),
        ("x = batch[0].to(self.device)", False, False),  # a trainer of a library may have moved the batch
        ("x = batch[0].float()", True, False),
    ],
)
def test_a_training_step_that_moves_its_batch_gets_it_on_the_host(
    tmp_path: Path, use: str, trains: bool, found: bool
) -> None:
    source = f"""\
class Learner:
    def train_step(self, batch):
        {use}
        loss = self.model(x).mean()
        {"loss.backward()" if trains else "return loss"}
"""
    (tmp_path / "learner.py").write_text(source, encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [f.location.line for f in findings if f.code == "GS304" and f.level != "note"] == ([3] if found else [])


@pytest.mark.parametrize("given", ["self.train_loader", "logger.log_every(self.train_loader, 10)"])
def test_a_model_that_is_given_a_batch_as_it_is_moves_it(tmp_path: Path, given: str) -> None:
    source = f"""\
class Learner:
    def fit(self, logger):
        for batch in {given}:
            losses = self.model(batch)
            sum(losses.values()).backward()
            self.optimizer.step()
            seen = {{name: loss.item() for name, loss in losses.items()}}
"""
    (tmp_path / "learner.py").write_text(source, encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [f.location.line for f in findings if f.code == "GS101" and f.level != "note"] == [7]


@pytest.mark.parametrize(("made", "found"), [("get_loader(config)", True), ("accelerator.prepare(other)", False)])
def test_a_local_name_shows_a_loader_unless_it_may_move_its_batches(tmp_path: Path, made: str, found: bool) -> None:
    source = f"""\
def fit(model, optimizer, accelerator, other, config, device):
    train_loader = {made}
    for x, y in train_loader:
        x = x.to(device)
        model(x, y).mean().backward()
        optimizer.step()
"""
    (tmp_path / "fit.py").write_text(source, encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [f.location.line for f in findings if f.code == "GS304" and f.level != "note"] == ([4] if found else [])
