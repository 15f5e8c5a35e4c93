"""Nested functions that train a model, as libraries make them for the loops of their users."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

MAKER = """\
def make_trainer(model, optimizer, loss_of, device):
    weights = [1.0, 2.0]

    def update({parameters}):
        optimizer.zero_grad()
        scale = torch.tensor(weights, device=device)
        loss = (loss_of(model(batch), scale)).mean()
        {backward}
        optimizer.step()
        return loss.item()

    return {made}
"""
FOUND = [
    ("GS301", "scale = torch.tensor(weights, device=device)"),
    ("GS101", "return loss.item()"),
]


@pytest.mark.parametrize("made", ["update", "Engine(update)", "{'train': update}"])
def test_a_nested_function_that_trains_is_a_step(scan: Scan, made: str) -> None:
    source = MAKER.format(parameters="engine, batch", backward="loss.backward()", made=made)
    assert scan(source) == FOUND


def test_it_is_host_code_around_graphs(tmp_path: Path) -> None:
    source = MAKER.format(parameters="batch", backward="loss.backward()", made="update")
    (tmp_path / "maker.py").write_text(f"import torch\n\n{source}", encoding="utf-8")
    found = [f for f in scan_paths([tmp_path], Config(root=tmp_path)).findings if f.level != "note"]
    assert {(f.level, f.region) for f in found} == {("warning", "step")}


@pytest.mark.parametrize(
    ("parameters", "backward"),
    [
        ("", "loss.backward()"),  # it takes no batch, so the loop may be inside of it
        ("batch", "pass"),  # it does not train
        ("batch", "for one in loss:\n            one.backward()"),  # it may be a whole epoch
    ],
)
def test_other_nested_functions_are_no_steps(scan: Scan, parameters: str, backward: str) -> None:
    assert ("GS101", "return loss.item()") not in scan(
        MAKER.format(parameters=parameters, backward=backward, made="Engine(update)")
    )


def test_nested_functions_of_tests_are_no_steps(scan: Scan) -> None:
    source = MAKER.format(parameters="engine, batch", backward="loss.backward()", made="Engine(update)")
    assert scan(source.replace("make_trainer", "test_trainer")) == []
