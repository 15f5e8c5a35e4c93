"""The examples: every planted hazard that running can show is on its line, in one run; the repaired ones are ready."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from graphsafe.optable.entries import version_matches

from .conftest import DEVICES, ROOT, Prove, Report, codes_of, probes_of

pytestmark = [pytest.mark.child, pytest.mark.slow]

EXAMPLES = ROOT / "examples"
HAZARDS = [
    hazard
    for name in ("planted_hazards.yaml", "system_hazards.yaml")
    for hazard in yaml.safe_load((ROOT / "tests" / "data" / name).read_text(encoding="utf-8"))
]
TARGETS = {
    "decoder_bad": "decoder_bad.py:build_layer",
    "decoder_good": "decoder_good.py:build_layer",
    "left_capturing": "systems/system1_left_capturing.py:build_layer",
    "left_capturing_repaired": "systems/system1_left_capturing.py:build_repaired",
    "stale_plan": "systems/system3_stale_plan.py:build_layer",
    "stale_plan_repaired": "systems/system3_stale_plan.py:build_repaired",
    "port": "systems/system5_port.py:build_layer",
    "port_repaired": "systems/system5_port.py:build_repaired",
}
READY = ["decoder_good", "left_capturing_repaired", "stale_plan_repaired", "port_repaired"]


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    found = prove([str(EXAMPLES / target) for target in TARGETS.values()], request.param, root=EXAMPLES)
    return dict(zip(TARGETS, found, strict=True))


def runtime_hazards(*files: str) -> Iterator[tuple[str, int, str]]:
    for hazard in HAZARDS:
        if hazard["file"] in files and hazard["runtime"]:
            lines = (EXAMPLES / hazard["file"]).read_text(encoding="utf-8").splitlines()
            [line] = [number for number, text in enumerate(lines, 1) if hazard["text"] in text]
            yield Path(hazard["file"]).name, line, hazard["code"]


def proven(report: Report) -> set[tuple[str, int, str]]:
    return {
        (Path(finding["location"]["path"]).name, finding["location"]["line"], finding["code"])
        for finding in report["findings"]
        if finding["source"] != "scan"
    }


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("decoder_bad", ("decoder_bad.py", "decoder_bad_ops.py")),
        ("left_capturing", ("systems/system1_left_capturing.py",)),
        ("stale_plan", ("systems/system3_stale_plan.py",)),
        ("port", ("systems/system5_port.py",)),
    ],
)
def test_every_planted_hazard_is_on_its_line(name: str, files: tuple[str, ...], reports: dict[str, Report]) -> None:
    assert set(runtime_hazards(*files)) - proven(reports[name]) == set()
    assert reports[name]["verdict"] == "not-ready"


@pytest.mark.parametrize("name", READY)
def test_the_repaired_ones_are_ready(name: str, reports: dict[str, Report]) -> None:
    assert reports[name]["verdict"] == "ready"
    assert codes_of(reports[name], "error") == []


def test_the_generator_left_capturing_is_named_with_its_cause_and_repair(reports: dict[str, Report]) -> None:
    [finding] = [finding for finding in reports["left_capturing"]["findings"] if finding["code"] == "GS501"]
    assert finding["location"]["function"] == "WarmedSparseAttention.try_capture"
    assert [site["function"] for site in finding["call_chain"]][-1] == "WarmedSparseAttention.__init__"
    data: dict[str, Any] = finding["data"]
    assert "operation not permitted when stream is capturing" in data["first_error"]["message"]
    assert "Offset increment outside graph capture" in data["draw"]
    assert data["repair_works"] is True
    assert probes_of(reports["left_capturing"])["construct"]["left_capturing"] is True
    is_older = version_matches(torch.__version__, "<2.12")
    assert ("on a GPU, the installed torch" in finding["why"]) is (finding["source"] == "simulate" and not is_older)


def test_a_stale_plan_is_proven_although_capture_and_replay_pass(reports: dict[str, Report]) -> None:
    probes = probes_of(reports["stale_plan"])
    assert probes["capture"]["status"] == "pass"
    assert all(check["equal"] for check in probes["replay"]["checks"])
    assert codes_of(reports["stale_plan"], "error") == ["GS701"]


def test_what_scan_foresaw_is_confirmed(reports: dict[str, Report]) -> None:
    statuses = {finding["status"] for finding in reports["decoder_bad"]["findings"]}
    assert "confirmed" in statuses
    confirmed = [finding for finding in reports["decoder_bad"]["findings"] if finding["status"] == "confirmed"]
    assert len(confirmed) >= 15


@pytest.fixture(scope="module", params=DEVICES)
def declaring(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    names = ("build_layer", "build_bold", "build_repaired")
    targets = [str(EXAMPLES / f"systems/system4_declared_support.py:{name}") for name in names]
    return dict(zip(names, prove(targets, request.param, root=EXAMPLES, buckets={"q_len": (1, 2)}), strict=True))


def test_declared_support_is_compared_with_what_is_proven(declaring: dict[str, Report]) -> None:
    levels = {name: codes_of(report, "error", "warning") for name, report in declaring.items()}
    assert levels == {"build_layer": ["GS801"], "build_bold": ["GS801", "GS101"], "build_repaired": []}
    proven = {name: report["support"]["proven"]["level"] for name, report in declaring.items()}
    assert proven == {
        "build_layer": "UNIFORM_BATCH",
        "build_bold": "UNIFORM_SINGLE_TOKEN_DECODE",
        "build_repaired": "UNIFORM_BATCH",
    }
    over = next(finding for finding in declaring["build_bold"]["findings"] if finding["code"] == "GS801")
    assert [("systems/system4_declared_support.py", over["data"]["line"], "GS101")] == [
        (f"systems/{file}", line, code) for file, line, code in runtime_hazards("systems/system4_declared_support.py")
    ]


@pytest.fixture(scope="module", params=DEVICES)
def fallback(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    names = ("build_layer", "build_repaired")
    targets = [str(EXAMPLES / f"systems/system2_fallback.py:{name}") for name in names]
    return dict(zip(names, prove(targets, request.param, root=EXAMPLES, buckets={"batch": (2,)}), strict=True))


def test_the_fallback_names_the_lines_that_take_its_memory(fallback: dict[str, Report]) -> None:
    lines = (EXAMPLES / "systems/system2_fallback.py").read_text(encoding="utf-8").splitlines()
    keys, wide = (
        next(number for number, line in enumerate(lines, 1) if text in line)
        for text in ("keys = self.cache[indices]", "wide = keys.float()")
    )
    probe = probes_of(fallback["build_layer"])["memory"]
    for held in (probe["step"], probe["pool"]):
        largest = [(int(line["place"].rpartition(":")[2]), line["bytes"]) for line in held["lines"][:2]]
        assert largest == [(wide, 2 * 512 * 576 * 4), (keys, 2 * 512 * 576 * 2)]
    repaired = probes_of(fallback["build_repaired"])["memory"]
    assert repaired["step"]["bytes"] < probe["step"]["bytes"] / 5
    assert [report["verdict"] for report in fallback.values()] == ["ready", "ready"]
