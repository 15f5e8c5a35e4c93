"""`scan --with report.json`: the findings of a scan that a run confirmed, refuted or never reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from graphsafe.cli import main

MODEL = '''
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        """Compute the step."""
        if x.dim() > 3:
            x = x[x > 0]
        return x * x.sum().item()


class Elsewhere(nn.Module):
    def forward(self, x):
        return x.nonzero()


def build(device):
    return Model(), (torch.ones(4, device=device),)
'''


@pytest.mark.child
def test_a_run_whose_step_failed_does_not_tell_which_lines_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL.replace("return x * x.sum().item()", "return x * x.sum().item() + x[9]"))
    assert main(["capture", "model.py:build", "--device", "sim", "-o", "run.json"]) == 2
    assert json.loads(Path("run.json").read_text())["executed"] is None
    capsys.readouterr()
    assert main(["scan", "model.py", "--with", "run.json", "-o", "scan.json"]) == 1
    assert capsys.readouterr().err == (
        "3 predictions: 0 confirmed, 0 refuted, 0 never reached, 3 that a run cannot decide\n"
    )
    assert {finding["status"] for finding in json.loads(Path("scan.json").read_text())["findings"]} == {None}


@pytest.mark.child
def test_predictions_meet_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    assert main(["capture", "model.py:build", "--device", "sim", "-o", "run.json"]) == 1
    capsys.readouterr()
    assert main(["scan", "model.py", "--with", "run.json", "-o", "scan.json"]) == 1
    # Four statements count: `if`, the line inside it and two `return`. The run reached two of them. The docstring and
    # `def` do not count.
    assert capsys.readouterr().err.endswith("2 never reached; the step ran 2 of 4 hot lines (50%)\n")
    assert json.loads(Path("scan.json").read_text())["hot_lines"] == {"all": 4, "ran": 2, "changed": []}
    # Lines that have moved since the run are found by their fingerprints.
    Path("model.py").write_text(MODEL.replace("import torch\n", "import torch\n\n", 1))
    capsys.readouterr()
    assert main(["scan", "model.py", "--with", "run.json", "-o", "scan.json"]) == 1
    assert capsys.readouterr().err.endswith(
        "3 predictions: 1 confirmed, 0 refuted, 2 never reached; "
        "it is not known which hot lines ran; changed since the run: model.py\n"
    )
    found = json.loads(Path("scan.json").read_text())["findings"]
    assert {finding["code"]: finding["status"] for finding in found} == {
        "GS202": "not-executed",
        "GS101": "confirmed",
        "GS201": "not-executed",
    }
    assert main(["scan", "model.py", "--with", "run.json", "--format", "concise"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[1]: line.rpartition(" ")[2] for line in lines} == {
        "GS202": "(not-executed)",
        "GS101": "(confirmed)",
        "GS201": "(not-executed)",
    }
    assert main(["scan", "model.py", "--with", "scan.json"]) == 2
    assert main(["scan", "model.py", "--with", "nowhere.json"]) == 2
    assert main(["scan", "model.py", "--with", "run.json", "--statistics"]) == 2
