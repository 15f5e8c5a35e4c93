"""scan names every hazard planted in examples/ with its line, code and chain, and leaves the repaired code alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from graphsafe.config import load_config
from graphsafe.report.model import Finding, Report
from graphsafe.scan.api import scan_paths

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TABLES = ("planted_hazards.yaml", "system_hazards.yaml")
DECODER_BAD = {"decoder_bad.py", "decoder_bad_ops.py"}
DECODER_GOOD = {"decoder_good.py", "decoder_good_ops.py"}


@dataclass(frozen=True)
class Hazard:
    file: str
    text: str
    code: str
    function: str
    chain: list[str]
    runtime: bool

    @property
    def line(self) -> int:
        lines = (EXAMPLES / self.file).read_text(encoding="utf-8").splitlines()
        [line] = [number for number, line in enumerate(lines, 1) if self.text in line]
        return line

    @property
    def call_sites(self) -> list[tuple[str, ...]]:
        """The chains that may lead to it: one for each forward that it can start from."""
        starts = [at for at, function in enumerate([*self.chain, self.function]) if at == 0 or is_forward(function)]
        return [tuple(self.chain[at:]) for at in starts]


def is_forward(function: str) -> bool:
    return function.endswith(".forward")


HAZARDS = [
    Hazard(**row)
    for table in TABLES
    for row in yaml.safe_load((ROOT / "tests" / "data" / table).read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def report() -> Report:
    return scan_paths([EXAMPLES], load_config(EXAMPLES), confidence="likely")


def in_example(finding: Finding) -> str:
    return finding.location.path.rpartition("examples/")[2]


@pytest.mark.parametrize("hazard", HAZARDS, ids=lambda hazard: f"{hazard.code}-{hazard.function}-{hazard.text[:20]}")
def test_names_every_planted_hazard(report: Report, hazard: Hazard) -> None:
    on_line = [f for f in report.findings if (in_example(f), f.location.line) == (hazard.file, hazard.line)]
    assert [f.code for f in on_line] == [hazard.code]
    [finding] = on_line
    assert finding.location.function == hazard.function
    assert tuple(site.function for site in finding.call_chain) in hazard.call_sites
    assert finding.level != "note" or finding.code == "GS401"


def test_each_call_site_calls_the_next_function(report: Report) -> None:
    for finding in report.findings:
        functions = [*(site.function for site in finding.call_chain), finding.location.function]
        for site, callee in zip(finding.call_chain, functions[1:], strict=True):
            source = (EXAMPLES / site.path.rpartition("examples/")[2]).read_text(encoding="utf-8").splitlines()
            name = (callee or "").rpartition(".")[2]
            assert is_forward(callee or "") or f"{name}(" in source[site.line - 1], finding


def test_decoder_bad_has_no_error_that_nobody_planted(report: Report) -> None:
    planted = {(hazard.file, hazard.line, hazard.code) for hazard in HAZARDS}
    found = {
        (in_example(f), f.location.line, f.code)
        for f in report.findings
        if in_example(f) in DECODER_BAD and f.level == "error"
    }
    assert found <= planted


def test_decoder_good_is_clean(report: Report) -> None:
    loud = [f for f in report.findings if in_example(f) in DECODER_GOOD and f.level != "note" and f.code != "GS401"]
    assert loud == []


def test_repaired_systems_have_no_error(report: Report) -> None:
    repaired = ("PlannedEachStep", "SplitAttention", "Repaired", "SparseAttention", "capture_repaired", "Layer.")
    errors = [
        (f.code, in_example(f), f.location.line)
        for f in report.findings
        if in_example(f).startswith("systems/")
        and f.level == "error"
        and (f.location.function or "").startswith(repaired)
    ]
    assert errors == []


def test_the_table_covers_the_families_and_both_files() -> None:
    decoder = [hazard for hazard in HAZARDS if hazard.file in DECODER_BAD]
    wanted = "101 102 103 201 202 203 301 302 303 304 402 701 702 703"
    assert {hazard.code for hazard in decoder} >= {f"GS{number}" for number in wanted.split()}
    behind_a_call = [h for h in decoder if h.file == "decoder_bad_ops.py" or not is_forward(h.function)]
    assert 2 * len(behind_a_call) >= len(decoder)
