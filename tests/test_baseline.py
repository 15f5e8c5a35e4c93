"""A baseline leaves out earlier findings and nothing else, and people can edit and merge its file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graphsafe import cli
from graphsafe.baseline.matching import normalised
from graphsafe.report.forms import render
from graphsafe.report.json_form import read_reports

HOT = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x[x > 0]
        return x * x.sum().item() + y.mean()
"""
NAME = "graphsafe-baseline.toml"


class Project:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = cli.main(["scan", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    @property
    def baseline(self) -> str:
        return (self.folder / NAME).read_text(encoding="utf-8")

    def found(self, *arguments: str) -> list[str]:
        """Return the codes of the findings that are shown, in order."""
        return [finding["code"] for finding in self.findings(*arguments) if finding["suppressed"] is None]

    def findings(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run(*(arguments or (".",)), "--format", "json")[1])["findings"]
        return found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """Make a project with two errors that are in its baseline."""
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path, capsys)
    project.write("graphsafe.toml", "")
    project.write("hot.py", HOT)
    assert project.found() == ["GS202", "GS101"]
    assert project.run(".", "--write-baseline") == (0, f"{NAME}: 2 findings (2 new)\n", "")
    return project


def test_known_findings_are_left_out_and_new_ones_are_not(project: Project) -> None:
    assert project.run(".") == (0, "no findings; 2 in the baseline; 1 root read\n", "")
    assert project.run("hot.py")[0] == 0
    project.edit("hot.py", "y.mean()", "y.max().item()")
    # Two causes on the same line for the same rule give one finding.
    project.edit("hot.py", "        y =", "        n = x.max().item()\n        y =")
    assert project.run(".")[0] == 1
    assert project.found() == ["GS101"]


EDITS = {
    "a comment above": lambda text: f"# A comment.\n{text}",
    "another import": lambda text: f"import os\n{text}",
    "a comment on the line": lambda text: text.replace("y = x[x > 0]", "y = x[x > 0]  # all that is positive"),
    "the lines of a formatter": lambda text: text.replace(
        "return x * x.sum().item() + y.mean()",
        "return (\n            x\n            * x.sum()\n            .item()\n            + y.mean()\n        )",
    ),
    "other spacing": lambda text: text.replace("x[x > 0]", "x[ x>0 ]"),
    "a used value": lambda text: text.replace("y = x[x > 0]", "y = torch.relu(x[x > 0]) + 1"),
    "a renamed class": lambda text: text.replace("Step", "Decode"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_entry_survives_moves_and_reformatting(project: Project, edit: Any) -> None:
    project.write("hot.py", edit(HOT))
    assert project.found() == []
    assert project.found("hot.py") == []


def test_entries_go_with_a_renamed_file_and_not_to_a_copy(project: Project) -> None:
    (project.folder / "hot.py").rename(project.folder / "decode.py")
    assert project.found() == project.found("decode.py") == []
    project.write("hot.py", HOT)
    shown = [finding["location"]["path"] for finding in project.findings() if finding["suppressed"] is None]
    assert shown == ["decode.py", "decode.py"]


def test_formatters_change_nothing_of_the_text() -> None:
    assert normalised("f( 'a b' ,\n  x [ 1 : ],  # why\n)") == 'f("a b",x[1:])'
    assert normalised("not x\\\n  and y") == "not x and y"
    assert normalised("f('\"#')") == "f('\"#')"
    assert normalised("x if y else -1") != normalised("x if yelse-1")


def test_one_more_of_the_same_is_new(project: Project) -> None:
    project.edit("hot.py", "        y = x[x > 0]\n", "        y = x[x > 0]\n        z = x[x > 0]\n")
    assert project.found() == ["GS202"]
    project.run(".", "--write-baseline")
    assert "count = 2" in project.baseline
    assert project.found() == []
    project.write("hot.py", HOT)
    (stale,) = (finding for finding in project.findings() if finding["code"] == "GS903")
    assert "2 times GS202 `x[x>0]` in Step.forward of hot.py, of which 1 is no longer found" in stale["message"]
    project.edit(NAME, "count = 2", "count = 3")
    (stale,) = (finding for finding in project.findings() if finding["code"] == "GS903")
    assert "3 times GS202 `x[x>0]` in Step.forward of hot.py, of which 2 are no longer found" in stale["message"]


def test_a_stale_entry_is_reported_on_its_line_where_the_scan_looked_for_it(
    project: Project, valid_report: Any
) -> None:
    project.edit("hot.py", "x[x > 0]", "x")
    (project.folder / "other").mkdir()
    project.write("other/cold.py", "pass\n")
    report = valid_report(project.run(".", "--format", "json")[1])
    (stale,) = (finding for finding in report["findings"] if finding["suppressed"] is None)
    assert (stale["code"], stale["level"], stale["location"]["path"]) == ("GS903", "warning", NAME)
    line = project.baseline.splitlines()[stale["location"]["line"] - 1 :]
    assert line[0] == "[[finding]]" and 'code = "GS202"' in line[1:5]
    assert project.run(".")[0] == 0
    assert project.run(".", "--fail-level", "warning")[0] == 1
    for elsewhere in (["other"], [".", "--select", "GS1,GS9"], [".", "--ignore", "GS903"], ["--ignore", "GS202", "."]):
        assert project.found(*elsewhere) == []
    assert project.run(".", "--write-baseline")[1] == f"{NAME}: 1 finding (1 gone)\n"
    assert project.found() == []


def test_an_entry_with_a_code_that_no_rule_has_is_stale(project: Project) -> None:
    project.edit(NAME, 'code = "GS202"', 'code = "GS999"')
    assert project.found(".", "--select", "GS1,GS9") == ["GS903"]
    assert project.found() == ["GS903", "GS202"]
    assert project.run(".", "--write-baseline")[1] == f"{NAME}: 2 findings (1 new and 1 gone)\n"


def test_a_file_that_cannot_be_read_makes_no_entry_stale(project: Project) -> None:
    project.write("hot.py", HOT + "def (:\n")
    assert project.found() == ["GS900"]
    assert project.found(".", "--ignore", "GS900") == []


def test_what_a_comment_suppresses_needs_no_entry(project: Project) -> None:
    project.edit("hot.py", "x[x > 0]", "x[x > 0]  # graphsafe: ignore[GS202] only on the host")
    assert project.found() == []
    assert project.run(".", "--write-baseline")[1] == f"{NAME}: 1 finding (1 gone)\n"


def test_owner_reason_and_expiry_are_kept_and_an_expired_entry_comes_back(project: Project) -> None:
    written = 'text = "x[x>0]"\nowner = "Kim"\nreason = "until \\"v2\\""\nexpires = 2999-12-31\n'
    project.edit(NAME, 'text = "x[x>0]"\n', written)
    project.write("hot.py", "import os\n" + HOT.replace("Step", "Decode"))
    project.run(".", "--write-baseline")
    assert written in project.baseline
    (known,) = (finding for finding in project.findings() if finding["code"] == "GS202")
    assert known["suppressed"] == {"reason": 'until "v2"'}
    assert known["data"]["baseline"] == {"owner": "Kim", "reason": 'until "v2"', "expires": "2999-12-31"}

    project.edit(NAME, "2999-12-31", "2020-01-31")
    assert project.run(".")[0] == 1
    (shown,) = (finding for finding in project.findings() if finding["suppressed"] is None)
    assert shown["message"].endswith('(its baseline entry expired on 2020-01-31, owner Kim, reason until "v2")')
    project.run(".", "--write-baseline")
    assert "expires = 2020-01-31" in project.baseline and project.found() == ["GS202"]


def test_the_file_does_not_depend_on_the_order_and_merges_with_git(project: Project) -> None:
    """Two branches that add and remove findings of different files leave no conflict."""

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True
        )

    git("init", "-q", "-b", "main")
    for name in ("a.py", "c.py", "e.py"):
        project.write(name, HOT)
    project.run(".", "--write-baseline")
    git("add", ".")
    git("commit", "-qm", "one")
    git("switch", "-qc", "other")
    project.write("b.py", HOT)
    project.run("b.py", "--write-baseline")
    git("add", ".")
    git("commit", "-qm", "two")
    git("switch", "-q", "main")
    project.write("d.py", HOT)
    project.edit("e.py", "x[x > 0]", "x")
    project.run(".", "--write-baseline")
    git("add", ".")
    git("commit", "-qm", "three")
    git("merge", "-q", "--no-edit", "other")
    merged = project.baseline
    assert project.found() == []
    project.run(".", "--write-baseline")
    assert project.baseline == merged


def test_another_baseline_can_be_named(project: Project) -> None:
    (project.folder / NAME).rename(project.folder / "known.toml")
    assert project.run(".")[0] == 1
    assert project.found(".", "--baseline", "known.toml") == []
    assert project.run(".", "--baseline", "new.toml", "--write-baseline")[0] == 0
    assert (project.folder / "new.toml").read_text() == (project.folder / "known.toml").read_text()
    code, out, err = project.run(".", "--baseline", "absent.toml")
    assert (code, out) == (2, "") and "absent.toml: no such file; `graphsafe scan --write-baseline` writes one" in err


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version = 1", "version = 2", "a baseline of version 2, but this graphsafe reads version 1"),
        ("version = 1\n", "", "version: missing, so this is not a baseline"),
        ("version = 1", "<<<<<<< HEAD\nversion = 1", "has a merge conflict; keep one side"),
        ('code = "GS101"\n', "", "finding[0].code: missing"),
        ('code = "GS101"\n', 'code = "GS101"\nreasn = "x"\n', 'finding[0].reasn: unknown key (did you mean "reason"?)'),
        ('code = "GS101"\n', 'code = "GS101"\nexpires = "soon"\n', "finding[0].expires: expected a date such as"),
        ('code = "GS101"\n', 'code = "GS101"\nexpires = 2027-01-01T00:00:00\n', "expires: expected a date such as"),
        ('code = "GS101"\n', 'code = "GS101"\ncount = 0\n', "finding[0].count: expected a number from 1 on"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_in_one_line(
    project: Project, old: str, new: str, problem: str
) -> None:
    project.edit(NAME, old, new)
    before = project.baseline
    for arguments in ([], ["--write-baseline"]):
        code, out, err = project.run(".", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{NAME}: " in err and problem in err
    assert project.baseline == before


def test_a_baseline_of_this_version_stays_readable(project: Project) -> None:
    """The baseline was written by graphsafe 0.1."""
    project.write(
        NAME,
        '# Findings\nversion = 1\n\n[[finding]]\npath = "hot.py"\nfunction = "Step.forward"\ncode = "GS101"\n'
        'text = "x.sum().item()"\nowner = "Kim"\n\n[[finding]]\npath = "hot.py"\nfunction = "Step.forward"\n'
        'code = "GS202"\ntext = "x[x>0]"\ncount = 1\nconfidence = "possible"\nexpires = "2999-01-01"\n',
    )
    assert project.found() == []


@pytest.mark.parametrize("form", ["sarif", "gitlab", "github", "junit", "html", "concise"])
def test_every_form_tells_known_findings_from_others(project: Project, form: str) -> None:
    project.run(".", "--format", "json", "-o", "report.json")
    text = render(read_reports(project.folder / "report.json"), form)
    if form == "sarif":
        results = json.loads(text)["runs"][0]["results"]
        assert [result["suppressions"] for result in results] == [[{"kind": "external"}]] * 2
    elif form == "gitlab":
        assert json.loads(text) == []
    else:
        assert "hot.py:7" not in text or form in ("junit", "html")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--write-baseline", "--explain-path", "f"], "give either --explain-path or --write-baseline"),
        (["--write-baseline", "--format", "json"], "--write-baseline prints text; it takes neither --format nor -o"),
        (["--write-baseline", "--baseline", "absent/b.toml"], "absent/b.toml: No such file or directory"),
    ],
)
def test_what_would_be_ignored_is_refused(project: Project, arguments: list[str], problem: str) -> None:
    code, out, err = project.run(".", *arguments)
    assert (code, out) == (2, "") and problem in err
