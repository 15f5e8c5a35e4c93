"""Forms that users know from other tools and try first: `-V`, `-q`, lower-case codes, `# noqa`, a misspelt name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphsafe.cli import main

MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        a = x.sum().item(){}
        return x.nonzero(), a
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL.format(""))


def scan(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(["scan", "model.py", *arguments])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-V"]) == 0
    assert capsys.readouterr().out.startswith("graphsafe ")


def test_quiet_is_one_line_a_finding_and_no_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, err = scan(capsys, "-q")
    assert code == 1 and err == ""
    assert [line.split()[1] for line in lines] == ["GS101", "GS201"]
    assert scan(capsys, "-q", "--select", "GS9") == (0, [], "")


def test_codes_in_lower_case(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, _ = scan(capsys, "-q", "--select", "gs101")
    assert [line.split()[1] for line in lines] == ["GS101"]
    assert main(["explain", "gs101"]) == 0
    assert "GS101 scalar-read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("  # noqa: GS101 once a request", ["GS201"]),
        ("  # noqa: E501,GS101 once a request", ["GS201"]),
        ("  # noqa: gs101", ["GS902", "GS201"]),
        ("  # noqa: E501", ["GS101", "GS201"]),
        ("  # noqa", ["GS101", "GS201"]),
        ("  # noqa: GS201 not here", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignore[gs101] once a request", ["GS201"]),
        ("  # GRAPHSAFE: Ignore[GS101] once a request", ["GS201"]),
        ("  # graphsafe: ignore [GS101] once a request", ["GS201"]),
        ("  # graphsafe: ignore [GS201] not here", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignore[GS999] no such rule", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignore[scalar-read] by its name", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignore[] everything", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignored since May", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignore(GS101) once a request", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignore GS101 once a request", ["GS101", "GS901", "GS201"]),
        ("  # graphsafe: ignore: GS101", ["GS101", "GS901", "GS201"]),
    ],
)
def test_noqa_with_codes(comment: str, found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.py").write_text(MODEL.format(comment))
    _, lines, _ = scan(capsys, "-q")
    assert [line.split()[1] for line in lines] == found


@pytest.mark.child
def test_a_name_that_is_not_quite_right(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    Path("steps.py").write_text(
        "import torch\n\nclass Runner:\n    def build_step(device): ...\n\ndef sort_of(x): ...\n"
    )
    assert main(["capture", "steps.py:Runner.build_stepp", "--device", "sim", "-q"]) == 2
    assert 'steps.py has no Runner.build_stepp (did you mean "build_step"?)' in capsys.readouterr().err
    assert main(["capture", "steps.py:torc", "--device", "sim", "-q"]) == 2
    assert "steps.py has no torc (its functions: sort_of)\n" in capsys.readouterr().err


@pytest.mark.child
def test_a_process_group_at_a_port_that_children_would_share(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    Path("steps.py").write_text(
        """
import torch
from torch.distributed import init_process_group

def build(device):
    init_process_group("gloo", init_method="tcp://127.0.0.1:29513", rank=0, world_size=1)
    return torch.nn.Linear(4, 4).to(device), (torch.ones(2, 4, device=device),)
"""
    )
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 29513))
        taken.listen()
        assert main(["capture", "steps.py:build", "--device", "sim", "-q"]) == 0
    assert capsys.readouterr().out == "steps.py:build: ready\n"


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("ignore[GS1O1] once", ': there is no rule GS1O1 (did you mean "GS101"?)'),
        ("ignore[scalar-read] once", ": there is no rule SCALAR-READ (its code is GS101)"),
        ("ignroe[GS101] once", "; write `# graphsafe: ignore[CODE] reason`"),
        ("ignore[GS102] once", ""),
    ],
)
def test_a_suppression_with_a_mistake_says_which(capsys: pytest.CaptureFixture[str], comment: str, why: str) -> None:
    Path("model.py").write_text(MODEL.format(f"  # graphsafe: {comment}"))
    lines = [line for line in scan(capsys, "-q")[1] if "GS901" in line]
    assert [line.partition("suppresses nothing on this line")[2] for line in lines] == [why]


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("GS1O1", ' (did you mean "GS101"?)'),
        ("GS2002", ' (did you mean "GS202"?)'),
        ("scalar-read", " (its code is GS101)"),
        # A code that no rule of its family resembles is not a typing mistake.
        ("GS999", ""),
        ("GS9999", ""),
        ("GS011", ""),
    ],
)
def test_an_unknown_rule_is_refused_with_one_of_its_family_that_was_meant(
    capsys: pytest.CaptureFixture[str], code: str, hint: str
) -> None:
    assert scan(capsys, "--ignore", code) == (2, [], f'graphsafe: --ignore: unknown rule "{code}"{hint}\n')
    if code == "scalar-read":
        return
    assert main(["explain", code]) == 2
    said = capsys.readouterr().err
    assert said == f'graphsafe: explain: nothing is known about "{code}"{hint}; `graphsafe rules` lists the rules\n'


def test_a_file_that_cannot_be_read_is_told_whatever_is_selected_unless_it_is_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("model.py").write_text("def (:\n")
    code, lines, _ = scan(capsys, "-q", "--select", "GS2")
    assert (code, [line.split()[1] for line in lines]) == (1, ["GS900"])
    assert "only: GS201, GS202, GS203, GS900" in "".join(scan(capsys, "--select", "GS2", "--show-settings")[1])
    Path("graphsafe.toml").write_text('[per-file-ignores]\n"model.py" = ["GS9"]\n')
    for ignored in ([], ["--select", "GS9"], ["--ignore", "GS900"]):
        code, lines, _ = scan(capsys, "--format", "json", *ignored)
        report = json.loads("".join(lines))
        assert (code, report["findings"]) == (0, [])
        (limit,) = [limit for limit in report["limits"] if limit["kind"] == "unread-file"]
        assert limit["what"] == "model.py" and "not checked, and GS900 is ignored here" in limit["why"]
