"""Count how often shapes mode agrees with known verdicts: those of tests/gpu/modules.yaml or of transformers steps.

    python benchmarks/capture/shapes_agreement.py
    python benchmarks/capture/shapes_agreement.py --transformers 3    # every third of the 150 steps; 1 for all

Prints each sound step that shapes mode calls faulty, and each faulty step that it does not find. Then prints the
totals.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from graphsafe.capture.api import capture_all
from graphsafe.capture.request import CaptureRequest
from graphsafe.config import Config

HERE = Path(__file__).resolve().parent
GPU = HERE.parents[1] / "tests" / "gpu"
TRUTH = HERE.parent / "data" / "transformers_capture_truth.json"


def small_modules() -> Iterator[tuple[str, str]]:
    """Yield each target, and its known verdict."""
    for file, verdicts in yaml.safe_load((GPU / "modules.yaml").read_text()).items():
        for expected, names in verdicts.items():
            yield from ((f"{GPU / 'modules' / file}:build_{name}", expected) for name in names)


def transformers_steps(every: int) -> Iterator[tuple[str, str]]:
    for known in json.loads(TRUTH.read_text())[::every]:
        if known["oracle"]["label"] in ("ready", "not-ready"):
            yield f"{HERE / 'transformers_steps.py'}:{known['case']['name']}", known["oracle"]["label"]


def compare(cases: list[tuple[str, str]]) -> None:
    """Capture every case from shapes alone, and print the totals."""
    requests = [CaptureRequest(target, Config(root=HERE), devices=("sim:0",), shapes=True) for target, _ in cases]
    totals: Counter[str] = Counter()
    for (target, expected), report in zip(cases, capture_all(requests), strict=True):
        said = report.verdict or "nothing"
        totals[f"{expected}, said {said}"] += 1
        if (said == "not-ready") != (expected == "not-ready"):
            codes = ", ".join(sorted({finding.code for finding in report.findings if finding.level == "error"}))
            print(f"{Path(target).name} is {expected}, said {said} ({codes or 'no error'})", flush=True)
    print(dict(sorted(totals.items())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transformers", type=int, metavar="EVERY", help="steps of transformers, every so many")
    every = parser.parse_args().transformers
    compare(list(transformers_steps(every) if every else small_modules()))
