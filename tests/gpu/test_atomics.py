"""Steps with float atomics get one verdict, the right one, however often they run.

`GRAPHSAFE_REPEAT=30` chooses how often; the reports go to gpu-atomics.json in $OUT or here.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

from graphsafe.capture.api import capture_all
from graphsafe.capture.request import CaptureRequest
from graphsafe.config import Config
from graphsafe.report.json_form import render_json

HERE = Path(__file__).parent
FILE = HERE / "atomics.py"
NAMES = [line.split("(")[0].removeprefix("def ") for line in FILE.read_text().splitlines() if line.startswith("def b")]
TIMES = int(os.environ.get("GRAPHSAFE_REPEAT", "5"))


@pytest.mark.child
@pytest.mark.gpu
def test_every_run_gives_the_right_verdict() -> None:
    names = NAMES * TIMES
    requests = [CaptureRequest(f"{FILE}:{name}", Config(root=HERE), devices=("cuda:0",)) for name in names]
    reports = list(zip(names, capture_all(requests), strict=True))
    folder = Path(os.environ.get("OUT", HERE.parents[1]))
    wrong = [json.loads(render_json(report)) for _, report in reports if report.verdict != "ready"]
    (folder / "gpu-atomics.json").write_text(json.dumps(wrong), encoding="utf-8")
    verdicts = Counter((name, report.verdict) for name, report in reports)
    assert verdicts == Counter({(name, "ready"): TIMES for name in NAMES})
    assert not [one.message for _, report in reports for one in report.findings if "`a Python value`" in one.message]
