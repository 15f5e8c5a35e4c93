"""What is told of a step: the cause before the symptom, and the repair that belongs to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.capture.request import BAD_REQUEST, INTERNAL, INTERRUPTED
from graphsafe.report.fingerprint import fingerprint
from graphsafe.rulebook.book import load_rulebook

from .conftest import DEVICES, ROOT, TARGETS, Answer, Prove, Report, probes_of

NAMES = ["adamw", "growing_dictionary", "bounded_list", "unreached"]
FILE = TARGETS / "told.py"


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    found = prove([f"{FILE}:{name}" for name in NAMES], request.param)
    return dict(zip(NAMES, found, strict=True))


def told(report: Report) -> list[tuple[str, str]]:
    return [(finding["code"], finding["level"]) for finding in report["findings"] if finding["code"] != "GS401"]


@pytest.mark.child
def test_an_optimizer_without_capturable_is_told_how_to_make_it(reports: dict[str, Report]) -> None:
    report = reports["adamw"]
    assert told(report) == [("GS802", "error")]
    finding = next(one for one in report["findings"] if one["code"] == "GS802")
    assert "capturable=True" in finding["fix"] and "optimizer.step()" in finding["message"]


@pytest.mark.child
def test_the_line_that_grows_is_the_cause_and_no_definition_is_blamed(reports: dict[str, Report]) -> None:
    report = reports["growing_dictionary"]
    assert report["verdict"] == "not-ready" and told(report) == [("GS402", "error")]
    (finding,) = [one for one in report["findings"] if one["code"] == "GS402"]
    assert "seen[len(seen)] = x.sum()" in finding["message"] and "dictionary" in finding["why"]


@pytest.mark.child
def test_a_list_of_numbers_is_no_buffer_that_grows(reports: dict[str, Report]) -> None:
    report = reports["bounded_list"]
    assert report["verdict"] == "ready" and told(report) == [("GS702", "note")]


@pytest.mark.child
def test_a_prediction_for_a_line_that_did_not_run_is_a_note_beside_ready(reports: dict[str, Report]) -> None:
    report = reports["unreached"]
    assert report["verdict"] == "ready" and told(report) == [("GS202", "note")]
    assert report["findings"][0]["status"] == "not-executed"


@pytest.mark.child
def test_a_line_of_a_library_has_the_path_that_opens_it(tmp_path: Path, command: Callable[..., Answer]) -> None:
    library = tmp_path / "lib" / "site-packages" / "somelib"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("def norm(x):\n    return x / x.abs().max().item()\n")
    (tmp_path / "model.py").write_text(
        f"import sys\nsys.path.append({str(library.parent)!r})\nimport somelib, torch\n\n\n"
        "def build(device):\n    return somelib.norm, (torch.randn(4, device=device),)\n"
    )
    answer = command("model.py:build", "--device", "sim")
    assert answer.report is not None
    [finding] = answer.report["findings"]
    assert finding["location"]["path"] == "lib/site-packages/somelib/__init__.py"
    assert "return x / x.abs().max().item()" in answer.out
    # Its identity and the short places of the probes do not depend on where the library is installed.
    text = "    return x / x.abs().max().item()"
    assert finding["fingerprint"] == fingerprint("GS101", "somelib/__init__.py", "norm", text, 0)
    assert probes_of(answer.report)["step"]["by_line"][0]["place"] == "somelib/__init__.py:2"


def test_every_kind_of_limit_is_in_the_manual() -> None:
    source = ROOT / "src" / "graphsafe"
    modules = [*(source / "capture").rglob("*.py"), source / "api.py", source / "report" / "no_line.py"]
    text = "\n".join(module.read_text(encoding="utf-8") for module in modules)
    kinds = set(re.findall(r'\bLimit\("([a-z-]+)"', text)) | {BAD_REQUEST, INTERNAL, INTERRUPTED, "no-line"}
    rows = (ROOT / "docs" / "report.md").read_text(encoding="utf-8").splitlines()
    named = {kind for row in rows if row.startswith("| `") for kind in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert len(kinds) > 20 and kinds <= named, kinds - named


def test_the_reasons_of_a_buffer_are_sentences() -> None:
    rules = load_rulebook().rules
    assert "so replays are right" in rules["GS401"].short_why
