"""Files outside of a checkout: a repository can name them or link to them, but not have them quoted or replaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphsafe import cli

SECRET = "ghp_SECRET123456"
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "credentials").write_text(f"https://me:{SECRET}@example.org\n", encoding="utf-8")
    (tmp_path / "hosts.yml").write_text(f"host:\n  token: {SECRET}\n", encoding="utf-8")
    (tmp_path / "patterns").write_text(f"[[{SECRET}\n", encoding="utf-8")
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "graphsafe.toml").write_text("", encoding="utf-8")
    (folder / "step.py").write_text("import torch\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("command", [["scan", "."], ["config"], ["rules"], ["explain", "GS101"]])
@pytest.mark.parametrize("pack", ["ABSOLUTE/credentials", "../credentials", "ABSOLUTE/hosts.yml", "pack"])
def test_a_file_that_is_named_as_a_pack_is_not_quoted(
    checkout: Path, command: list[str], pack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "pack").mkdir()
    (checkout / "pack" / "errors.yaml").symlink_to(checkout.parent / "hosts.yml")
    named = pack.replace("ABSOLUTE", str(checkout.parent))
    (checkout / "graphsafe.toml").write_text(f'rules = ["{named}"]\n', encoding="utf-8")
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert "points outside the project, and holds no rules" in err and err.count("\n") == 1


def test_a_secret_inside_the_project_is_not_quoted_either(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / ".env").write_text(f"TOKEN={SECRET}\n", encoding="utf-8")
    (checkout / "graphsafe.toml").write_text('rules = [".env"]\n', encoding="utf-8")
    (checkout / "errors.yaml").symlink_to(checkout.parent / "hosts.yml")
    assert cli.main(["scan", "."]) == 2
    assert cli.main(["rules", "test", "errors.yaml"]) == 2
    out, err = capsys.readouterr()
    assert SECRET not in out + err and "expected a table" in err


def test_an_ignore_file_that_is_a_link_is_not_followed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / ".gitignore").symlink_to(checkout.parent / "patterns")
    assert cli.main(["scan", ".", "--format", "json", "--no-cache"]) == 0
    out, err = capsys.readouterr()
    assert SECRET not in out + err and "not followed: a link" in out


def test_an_output_is_not_written_through_a_link_of_the_checkout(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "graphsafe.sarif").symlink_to(checkout.parent / "credentials")
    assert cli.main(["scan", ".", "-o", "sarif=graphsafe.sarif"]) == 2
    assert "a link; remove it" in capsys.readouterr().err
    assert SECRET in (checkout.parent / "credentials").read_text(encoding="utf-8")
    (checkout / "out").symlink_to(checkout.parent)
    assert cli.main(["scan", ".", "-o", "sarif=out/credentials"]) == 2
    assert SECRET in (checkout.parent / "credentials").read_text(encoding="utf-8")


def test_the_recipes_install_without_the_checkouts_modules() -> None:
    """`python -m pip` would run a `pip.py` of the checkout; with `-I`, Python does not look there."""
    recipes = [REPOSITORY / "action.yml", *(REPOSITORY / "templates").iterdir(), *(REPOSITORY / "docs").glob("*.md")]
    calls = [call for recipe in recipes for call in re.findall(r"python\S* .*?-m pip", recipe.read_text("utf-8"))]
    assert calls and all(call.startswith("python -I -m pip") for call in calls)
