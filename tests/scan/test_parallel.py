"""Several processes say what one says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.scan.api import scan_paths
from graphsafe.scan.driver import Driver, Step

from .projects import text

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.child
def test_two_processes_write_the_same_report() -> None:
    one, two = (scan_paths([EXAMPLES], load_config(EXAMPLES), jobs=jobs) for jobs in (1, 2))
    assert text(one) == text(two)
    assert one.findings


@pytest.mark.child
@pytest.mark.skipif(not hasattr(os, "fork"), reason="elsewhere one process reads")
def test_a_process_that_is_killed_costs_time_and_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    config, own, read = load_config(EXAMPLES), os.getpid(), Driver.look_into
    expected = scan_paths([EXAMPLES], config)

    def dying(driver: Driver, path: str) -> list[Step]:
        if os.getpid() != own and path.endswith("decoder_bad.py"):
            os._exit(9)
        return read(driver, path)

    monkeypatch.setattr(Driver, "look_into", dying)
    found = scan_paths([EXAMPLES], config, jobs=2)
    assert text(found) == text(expected)


def test_files_that_cannot_be_read_are_reported_as_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "fine.py").write_text("x = 1\n")
    report = scan_paths([tmp_path], load_config(tmp_path), jobs=2)
    assert [finding.code for finding in report.findings] == ["GS900"]


def test_progress_counts_files(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_text("def execute_model(x):\n    return x\n")
    seen: list[tuple[int, int]] = []
    scan_paths([tmp_path], load_config(tmp_path), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3)]


def test_helpers_in_files_without_a_word_of_torch_are_read_and_others_only_checked(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\nfrom helper import count\n\n"
        "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x[: count(x.sum())]\n"
    )
    (tmp_path / "helper.py").write_text("def count(x):\n    return int(x)\n")
    (tmp_path / "broken.py").write_text("x = [\n")
    (tmp_path / "odd.py").write_text("return 1\n")
    cold, warm = (scan_paths([tmp_path], load_config(tmp_path), cache=tmp_path / "cache") for _ in range(2))
    (tmp_path / "other.py").write_text("x = 2\n")
    touched = scan_paths([tmp_path], load_config(tmp_path), cache=tmp_path / "cache")
    for report in (cold, warm, touched):
        found = [(Path(finding.location.path).name, finding.code) for finding in report.findings]
        assert found == [("broken.py", "GS900"), ("helper.py", "GS101")]
