"""graphsafe as a library: scan, capture and saved reports."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import graphsafe
from graphsafe import cli

pytestmark = pytest.mark.child

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()


def build(device):
    return Step().to(device), (torch.ones(4, device=device),)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    (tmp_path / "hot.py").write_text(HOT, encoding="utf-8")
    return tmp_path


def test_scan_says_what_the_command_says(project: Path) -> None:
    cli.main(["scan", ".", "-o", "r.json"])
    saved = graphsafe.Report.load("r.json")
    found = graphsafe.scan(".")
    assert replace(found, created=saved.created) == saved
    assert graphsafe.scan().findings == graphsafe.scan(project).findings == found.findings
    assert graphsafe.scan(["hot.py"]).findings == found.findings


def test_a_scan_records_the_configured_variables_and_the_usual_ones(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "graphsafe.toml").write_text('settings = ["ENGINE_FALLBACK"]\n', encoding="utf-8")
    for name, value in {"ENGINE_FALLBACK": "7", "CUDA_LAUNCH_BLOCKING": "0", "ENGINE_SECRET": "x"}.items():
        monkeypatch.setenv(name, value)
    recorded = graphsafe.scan("hot.py").environment.settings
    assert (recorded["ENGINE_FALLBACK"], recorded["CUDA_LAUNCH_BLOCKING"]) == ("7", "0")
    assert "ENGINE_SECRET" not in recorded
    monkeypatch.setenv("ENGINE_FALLBACK", "8")
    assert graphsafe.scan("hot.py").environment.settings["ENGINE_FALLBACK"] == "8", "also from the cache"


def test_options_of_a_scan(project: Path) -> None:
    assert not graphsafe.scan("hot.py", ignore=["GS1"]).findings
    with pytest.raises(graphsafe.RequestError, match="no such file or folder"):
        graphsafe.scan("none.py")
    with pytest.raises(graphsafe.RequestError, match='unknown rule "GS9999"'):
        graphsafe.scan("hot.py", select=["GS9999"])
    with pytest.raises(graphsafe.RequestError, match="--diff"):
        graphsafe.scan("hot.py", diff="main")
    assert not graphsafe.scan("hot.py", select="GS2", exclude="other.py").findings
    for wrong in ({"region": "capture"}, {"confidence": "x"}):
        with pytest.raises(graphsafe.RequestError, match="is none of"):
            graphsafe.scan("hot.py", **wrong)
    with pytest.raises(graphsafe.RequestError, match="jobs=0 is less than 1"):
        graphsafe.scan("hot.py", jobs=0)


def test_a_report_can_be_saved_and_loaded(project: Path) -> None:
    report = graphsafe.scan("hot.py")
    Path("saved.json").write_text(report.json(), encoding="utf-8")
    assert graphsafe.Report.load("saved.json").findings == report.findings


def test_an_empty_list_of_paths_is_no_file(project: Path) -> None:
    assert graphsafe.scan().findings
    for empty in ([], ()):
        report = graphsafe.scan(empty)
        assert (report.findings, [limit.kind for limit in report.limits]) == ((), ["no-root"])


def test_scan_of_what_is_not_saved(project: Path) -> None:
    buffer = HOT.replace("x.sum().item()", "torch.tensor(2.0, device=x.device)")
    (finding,) = graphsafe.scan(buffers={"hot.py": buffer}).findings
    assert (finding.code, finding.edits[0].text) == ("GS301", "torch.full((), 2.0, device=x.device)")
    (finding,) = graphsafe.scan("new.py", buffers={project / "new.py": HOT.encode()}).findings
    assert finding.location.path == "new.py"


def test_capture_says_what_the_command_says(project: Path) -> None:
    pytest.importorskip("torch")
    report = graphsafe.capture("hot.py:build", device="sim")
    assert (report.verdict, report.evidence) == ("not-ready", "predicted")
    assert [finding.code for finding in report.findings] == ["GS101"]
    assert not (project / "graphsafe-report.json").exists()
    for wrong in ({"warmup": -1}, {"replays": 0}, {"nproc": 1}, {"timeout": 0}, {"seed": 10**23}):
        with pytest.raises(graphsafe.RequestError, match="capture: "):
            graphsafe.capture("hot.py:build", **wrong)
    with pytest.raises(graphsafe.RequestError, match="expected cuda"):
        graphsafe.capture("hot.py:build", device="gpu")
    with pytest.raises(graphsafe.RequestError, match="buckets: batch has no values"):
        graphsafe.capture("hot.py:build", buckets={"batch": []})
    for target, problem in (("none.py:build", "none.py:build: no such file"), ("hot.py", "name the factory too")):
        with pytest.raises(graphsafe.RequestError, match=problem):
            graphsafe.capture(target, device="sim")


def test_a_device_may_be_an_object_and_none_is_the_default(project: Path) -> None:
    torch = pytest.importorskip("torch")
    gone = torch.device("cuda:63")
    with pytest.raises(graphsafe.RequestError, match="--device cuda:63: this machine has "):
        graphsafe.capture("hot.py:build", device=[gone])
    assert graphsafe.capture("hot.py:build", device=None).verdict == "not-ready"
    wrong = torch.device("cpu")
    for call in (graphsafe.capture, graphsafe.plan):
        with pytest.raises(graphsafe.RequestError, match="--device cpu: expected cuda"):
            call("hot.py:build", device=wrong)
    with pytest.raises(graphsafe.RequestError, match="--device cpu: expected cuda"):
        graphsafe.watch(device=wrong)


def test_saved_reports(project: Path) -> None:
    cli.main(["scan", "hot.py", "-o", "one.json"])
    one = json.loads(Path("one.json").read_text())
    Path("two.json").write_text(json.dumps({"schema": "graphsafe/reports/1", "reports": [one, one]}), encoding="utf-8")
    assert [report.findings for report in graphsafe.Report.load_all("two.json")] == [
        graphsafe.Report.load("one.json").findings
    ] * 2
    with pytest.raises(graphsafe.RequestError, match=re.escape("two.json: contains 2 reports")):
        graphsafe.Report.load("two.json")
    with pytest.raises(graphsafe.RequestError, match=r"hot.py: not JSON"):
        graphsafe.Report.load("hot.py")
    with pytest.raises(graphsafe.RequestError, match=r"none.json: cannot be read"):
        graphsafe.Report.load(project / "none.json")


def test_packages_stay_callable_whatever_is_imported() -> None:
    import graphsafe.capture.api
    import graphsafe.scan.api

    for function in (graphsafe.scan, graphsafe.capture):
        assert callable(function)
        assert "Report" in str(inspect.signature(function).return_annotation)


def test_it_is_typed(project: Path) -> None:
    pytest.importorskip("mypy")
    (project / "use.py").write_text(
        "import graphsafe\n"
        'report = graphsafe.scan("a", select=["GS1"])\n'
        "reveal_type(report)\n"
        'reveal_type(graphsafe.capture("a:b", device="sim"))\n'
        'reveal_type(graphsafe.Report.load("a"))\n'
        "graphsafe.scan(selekt=[])\n",
        encoding="utf-8",
    )
    source = str(Path(graphsafe.__file__).parents[1])
    # Other packages are left out: mypy would read all of torch, on which graphsafe's own types do not depend.
    options = ["--cache-dir", "cache", "--follow-imports", "silent", "--no-site-packages"]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "use.py", *options],
        env={"MYPYPATH": source, "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.count('"graphsafe.report.shown.Report"') == 3, ran.stdout
    assert ran.stdout.count("error:") == 1 and "selekt" in ran.stdout


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'libcst', 'click', 'yaml', 'graphsafe.report.model', 'graphsafe.config'}"
    script = f"import sys, graphsafe; sys.exit(str({heavy} & set(sys.modules) or ''))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stderr.strip() == ""


def test_without_torch_it_says_what_to_install() -> None:
    script = """
import sys
sys.modules["torch"] = None
import graphsafe
for name in ("forbid", "allow", "watch", "ledger"):
    try:
        getattr(graphsafe, name)
    except graphsafe.RequestError as error:
        assert str(error) == f'graphsafe.{name} needs PyTorch: pip install "graphsafe[capture]"', error
    else:
        sys.exit(name)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_capture_without_torch_says_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *more: None if name == "torch" else found(name, *more))
    assert cli.main(["capture", "hot.py:build"]) == 2
    err = capsys.readouterr().err
    assert "graphsafe[capture]" in err and err.count("\n") == 1


def test_a_merge_needs_reports(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "merge"]) == 2
    assert capsys.readouterr().err == "graphsafe: report merge: name the reports to join\n"


@pytest.mark.slow
def test_a_comment_suppresses_on_a_line_that_only_a_capture_reports(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "plain.py").write_text(
        """\
import torch


def make(device):
    def fn(x):
        return x * x.sum().item()  # graphsafe: ignore[GS101] the host needs it

    return fn, (torch.ones(4, device=device),)
""",
        encoding="utf-8",
    )
    assert cli.main(["capture", "plain.py:make", "--format", "concise", "-o", "-"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("plain.py:make: not-ready: the capture failed: ") and told.out.count("\n") == 1
    assert "no GPU here" in told.err or graphsafe.capture("plain.py:make").evidence == "measured"
    assert cli.main(["capture", "plain.py:make", "-q"]) == 1
    assert "no GPU here" not in capsys.readouterr().err
    assert cli.main(["capture", "plain.py:make", "--device", "sim", "-o", "r.json"]) == 1
    (finding,) = json.loads(Path("r.json").read_text(encoding="utf-8"))["findings"]
    assert (finding["code"], finding["suppressed"]) == ("GS101", {"reason": "the host needs it"})


def test_a_bad_configuration_leaves_no_older_report(project: Path) -> None:
    Path("graphsafe-report.json").write_text("older", encoding="utf-8")
    (project / "pyproject.toml").write_text("[tool.graphsafe]\nbogus = 1\n", encoding="utf-8")
    assert cli.main(["capture", "hot.py:build", "--device", "sim"]) == 2
    report = json.loads(Path("graphsafe-report.json").read_text(encoding="utf-8"))
    assert (report["verdict"], report["evidence"]) == ("inconclusive", None)
    assert "bogus" in report["limits"][0]["why"]


def test_the_public_names_are_listed() -> None:
    assert set(graphsafe.__all__) <= set(dir(graphsafe))
    assert all(hasattr(graphsafe, name) for name in graphsafe.__all__)
