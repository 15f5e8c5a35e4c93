"""A file has the same findings from every folder: the nearest configuration judges it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphsafe import cli

STEP = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor):
        y = x[x > 0]
        return y * x.sum().item()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make nested folders with three configurations, one inside the other, and a step in each folder."""
    for name in (".", "inner", "inner/deep", "inner/deep/below", "plain"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / f"step_{Path(name).name or 'top'}.py").write_text(STEP, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.graphsafe]\nignore = ["GS1"]\n', encoding="utf-8")
    (tmp_path / "inner" / "graphsafe.toml").write_text('ignore = ["GS2"]\n', encoding="utf-8")
    (tmp_path / "inner" / "deep" / "graphsafe.toml").write_text(
        'fail-level = "note"\nselect = ["GS101"]\n', encoding="utf-8"
    )
    return tmp_path


def found(folder: Path, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> dict[Path, set[str]]:
    monkeypatch.chdir(folder)
    cli.main(["scan", *arguments, "--no-cache", "-o", "json=report"])
    report = json.loads(Path("report").read_text(encoding="utf-8"))
    codes: dict[Path, set[str]] = {}
    for finding in report["findings"]:
        codes.setdefault((folder / finding["location"]["path"]).resolve(), set()).add(finding["code"])
    return codes


def test_a_file_has_the_same_findings_from_every_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found(tree, ".", monkeypatch=monkeypatch)
    assert {path.relative_to(tree).as_posix(): codes for path, codes in whole.items()} == {
        "step_top.py": {"GS202"},
        "plain/step_plain.py": {"GS202"},
        "inner/step_inner.py": {"GS101"},
        "inner/deep/step_deep.py": {"GS101"},
        "inner/deep/below/step_below.py": {"GS101"},
    }
    for path, codes in whole.items():
        assert found(path.parent, path.name, monkeypatch=monkeypatch) == {path: codes}
        assert found(tree, str(path), monkeypatch=monkeypatch) == {path: codes}
        below = {other: of for other, of in whole.items() if other.is_relative_to(path.parent)}
        assert found(path.parent, ".", monkeypatch=monkeypatch) == below
    assert found(tree / "plain", *map(str, whole), monkeypatch=monkeypatch) == whole


def test_fingerprints_do_not_depend_on_the_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints = []
    for folder, path in ((tree, "."), (tree / "inner", ".."), (tree / "plain", "../inner/..")):
        monkeypatch.chdir(folder)
        cli.main(["scan", path, "--no-cache", "-o", "json=report"])
        report = json.loads(Path("report").read_text(encoding="utf-8"))
        prints.append(sorted(finding["fingerprint"] for finding in report["findings"]))
    assert len(prints[0]) == 5 and prints[0] == prints[1] == prints[2]


def test_each_configuration_says_what_fails(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    (tree / "pyproject.toml").write_text('[tool.graphsafe]\nselect = ["GS9"]\n', encoding="utf-8")
    assert cli.main(["scan", "plain"]) == 0
    assert cli.main(["scan", "."]) == 1


def test_each_project_has_its_baseline(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert cli.main(["scan", "--write-baseline"]) == 0
    assert {path.relative_to(tree).as_posix() for path in tree.rglob("graphsafe-baseline.toml")} == {
        "graphsafe-baseline.toml",
        "inner/graphsafe-baseline.toml",
        "inner/deep/graphsafe-baseline.toml",
    }
    assert cli.main(["scan", "."]) == 0
    assert cli.main(["scan", "inner/deep/step_deep.py"]) == 0


@pytest.mark.parametrize("written", [True, False])
def test_one_baseline_cannot_hold_several_projects(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], written: bool
) -> None:
    monkeypatch.chdir(tree)
    assert cli.main(["scan", "plain", "--baseline", "known.toml", "--write-baseline"]) == 0
    before = (tree / "known.toml").read_bytes()
    capsys.readouterr()
    assert cli.main(["scan", ".", "--baseline", "known.toml", *["--write-baseline"] * written]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "several projects (., inner, inner/deep)" in line
    assert (tree / "known.toml").read_bytes() == before
    assert cli.main(["scan", "plain", "--baseline", "known.toml"]) == 0


def test_what_the_outer_one_excludes_stays_out(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "pyproject.toml").write_text('[tool.graphsafe]\nexclude = ["inner/"]\n', encoding="utf-8")
    assert {path.name for path in found(tree, ".", monkeypatch=monkeypatch)} == {"step_top.py", "step_plain.py"}


def test_without_a_configuration_the_repository_is_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "setup.py").write_text("", encoding="utf-8")
    (tmp_path / "b" / "__init__.py").touch()
    ops = "import torch\n\n\ndef total(x: torch.Tensor):\n    return x.sum().item()\n"
    (tmp_path / "b" / "ops.py").write_text(ops, encoding="utf-8")
    (tmp_path / "a" / "step.py").write_text(
        "from torch import nn\nfrom b.ops import total\n\n\nclass Step(nn.Module):\n"
        "    def forward(self, x):\n        return x * total(x)\n",
        encoding="utf-8",
    )
    for folder, path in ((tmp_path, "."), (tmp_path, "b/ops.py"), (tmp_path / "b", "ops.py"), (tmp_path / "b", ".")):
        assert list(found(folder, path, monkeypatch=monkeypatch)) == [tmp_path / "b" / "ops.py"], (folder, path)


@pytest.mark.parametrize("text", ["not TOML [", "[tool.other]\nx = 1\n", "[project]\nname = 'x'\n"])
def test_what_others_configure_below_is_no_concern(tree: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tree / "plain" / "pyproject.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tree)
    assert (tree / "plain" / "step_plain.py") in found(tree, ".", monkeypatch=monkeypatch)


def test_a_malformed_configuration_below_is_said(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "inner" / "graphsafe.toml").write_text("selekt = 1\n", encoding="utf-8")
    monkeypatch.chdir(tree)
    assert cli.main(["scan", "."]) == 2
    err = capsys.readouterr().err
    assert "inner/graphsafe.toml: selekt: unknown key" in err and err.count("\n") == 1
