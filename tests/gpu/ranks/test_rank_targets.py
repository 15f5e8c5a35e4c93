"""What capture says of targets in two ranks; labels.yaml says what is true.

On the simulated device each takes some seconds, so there only those made by torch.distributed are asked about, and one
whose ranks do not run the same Python code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

torch = pytest.importorskip("torch")

from graphsafe.capture.api import capture_all  # noqa: E402
from graphsafe.capture.request import CaptureRequest  # noqa: E402
from graphsafe.config import Config  # noqa: E402
from graphsafe.report.model import Report  # noqa: E402

pytestmark = [pytest.mark.child, pytest.mark.slow]
HERE = Path(__file__).parent
LABELS: Mapping[str, tuple[str, list[str]]] = {
    name: (verdict, words)
    for verdict, names in yaml.safe_load((HERE / "labels.yaml").read_text(encoding="utf-8")).items()
    for name, words in names.items()
}
FEW = ("tensor_parallel", "fully_sharded", "counts_on_rank_one")
needs_gpus = [pytest.mark.gpu, pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")]


@pytest.fixture(scope="module", params=["sim", pytest.param("cuda", marks=needs_gpus)])
def reports(request: pytest.FixtureRequest) -> dict[str, Report]:
    device = str(request.param)
    names = [name for name in LABELS if device == "cuda" or name in FEW]
    requests = [
        CaptureRequest(f"{HERE / 'targets.py'}:{name}", Config(root=HERE), devices=(device,), nproc=2) for name in names
    ]
    return dict(zip(names, capture_all(requests), strict=True))


def expected(name: str, report: Report) -> str:
    verdict, words = LABELS[name]
    return "inconclusive" if report.evidence == "predicted" and "sim inconclusive" in words else verdict


def test_verdicts(reports: dict[str, Report]) -> None:
    wrong = {name: (report.verdict, expected(name, report)) for name, report in reports.items()}
    assert {name: pair for name, pair in wrong.items() if pair[0] != pair[1]} == {}


def test_codes(reports: dict[str, Report]) -> None:
    said = {name: [one.code for one in report.findings if one.level != "note"] for name, report in reports.items()}
    found = {name: sorted(set(codes)) for name, codes in said.items()}
    wanted = {name: sorted(word for word in LABELS[name][1] if word.startswith("GS")) for name in reports}
    assert {name: codes for name, codes in found.items() if codes != wanted[name]} == {}


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_oracle_confirms_every_label() -> None:
    done = subprocess.run([sys.executable, str(HERE / "oracle.py")], capture_output=True, text=True, check=True)
    told: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one for one in told if one["label"] != one["expected"]] == []
