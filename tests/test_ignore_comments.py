"""`scan --add-ignore REASON`: the next scan is clean, and nothing but comments has changed."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.rulebook.book import load_rulebook
from graphsafe.scan.sources.suppress import comment_in

BODY = "import torch\nfrom torch import nn\n\n\nclass Step(nn.Module):\n    def forward(self, x: torch.Tensor):\n"


class Project:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = folder / "hot.py"
        self._capsys = capsys

    def scan(self, *arguments: str) -> tuple[int, str, str]:
        code = cli.main(["scan", ".", "--no-cache", *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err

    def shown(self) -> list[str]:
        found = json.loads(self.scan("--format", "json")[1])["findings"]
        return [finding["code"] for finding in found if finding["suppressed"] is None]

    def ignored(self, *lines: str, reason: str = "why") -> list[str]:
        """Return the lines of a `forward` with the added comments. Check that the next scan is clean, and that a second
        call changes nothing."""
        self.file.write_bytes((BODY + "".join(f"        {line}\n" for line in lines)).encode())
        before = ast.dump(ast.parse(self.file.read_bytes()))
        assert self.scan("--add-ignore", reason)[0] == 0
        assert self.shown() == []
        text = self.file.read_text(encoding="utf-8")
        assert ast.dump(ast.parse(text)) == before
        assert self.scan("--add-ignore", reason) == (0, "0 findings ignored\n", "")
        assert self.file.read_text(encoding="utf-8") == text
        return [line[8:] for line in text.removeprefix(BODY).splitlines()]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphsafe.toml").write_text("", encoding="utf-8")
    return Project(tmp_path, capsys)


READ = "return x * x.sum().item()"


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (READ, f"{READ}  # graphsafe: ignore[GS101] why"),
        (f"{READ}   ", f"{READ}  # graphsafe: ignore[GS101] why"),
        (f"{READ} # type: ignore", f"{READ}  # type: ignore  # graphsafe: ignore[GS101] why"),
        (f"{READ}  # 'quoted", f"{READ}  # 'quoted  # graphsafe: ignore[GS101] why"),
        (
            f"{READ}  # graphsafe: ignore[GS102] never true",
            f"{READ}  # graphsafe: ignore[GS102, GS101] never true; why",
        ),
        (f"{READ}  # graphsafe: ignore[GS102] why  # noqa", f"{READ}  # graphsafe: ignore[GS102, GS101] why  # noqa"),
        (f"{READ}  # a # graphsafe: ignore[GS3]", f"{READ}  # a # graphsafe: ignore[GS3, GS101] why"),
        ("return '#' + str(x.sum().item())", "return '#' + str(x.sum().item())  # graphsafe: ignore[GS101] why"),
        ("return x[x > 0].sum().item()", "return x[x > 0].sum().item()  # graphsafe: ignore[GS101, GS202] why"),
    ],
)
def test_a_comment_is_added_or_added_to(project: Project, line: str, written: str) -> None:
    if "GS102" in written or "GS3" in written:
        # The other code has no finding on this line, so GS901 is ignored.
        (project.file.parent / "graphsafe.toml").write_text('ignore = ["GS901"]\n', encoding="utf-8")
    assert project.ignored(line) == [written]


def test_of_an_expression_on_several_lines_the_first_that_can_hold_a_comment_does(project: Project) -> None:
    assert project.ignored("return x.sum(", "    -1,  # last", ").item()")[0] == (
        "return x.sum(  # graphsafe: ignore[GS101] why"
    )
    assert project.ignored("return x.sum(dtype=", "    torch.float).item()", reason="see #12")[0].endswith("see #12")
    assert project.ignored('return {"""a', 'b""": 1, "c": x}["c"].sum(', ").item()")[1].endswith("GS101] why")


def test_for_lines_that_can_hold_no_comment_the_next_one_does(project: Project) -> None:
    written = "  # graphsafe: ignore[GS101] why"
    lines = project.ignored("return x.sum().item() + \\", "    1")
    assert lines == ["return x.sum().item() + \\", f"    1{written}"]
    lines = project.ignored('y = f"""', "{x.sum().item()}", '"""', "return y")
    assert lines == ['y = f"""', "{x.sum().item()}", f'"""{written}', "return y"]
    # If a line can have its own comment, a comment on a later line does not apply to it.
    text = f"        return [{READ[7:]},\n            x]{written}\n"
    project.file.write_text(BODY + text, encoding="utf-8")
    assert sorted(project.shown()) == ["GS101", "GS901"]


def test_what_no_comment_suppresses_is_named(project: Project) -> None:
    project.file.write_text("def (:\n", encoding="utf-8")
    code, _, err = project.scan("--add-ignore", "why")
    assert code == 1 and "hot.py:1: GS900 is not suppressed by a comment" in err


def test_bytes_that_are_no_comment_stay_as_they_are(project: Project) -> None:
    for text, encoding in (
        (BODY.replace("\n", "\r\n") + f"        {READ}\r\n        # \x0c end", "utf-8-sig"),
        ("# coding: latin-1\n# \xfc\n" + BODY + f"        {READ}", "latin-1"),
    ):
        project.file.write_bytes(text.encode(encoding))
        assert project.scan("--add-ignore", "why") == (0, "1 finding ignored in 1 file\n", "")
        expected = text.replace(READ, f"{READ}  # graphsafe: ignore[GS101] why")
        assert project.file.read_bytes() == expected.encode(encoding)
    project.file.write_bytes(text.encode("latin-1"))
    code, _, err = project.scan("--add-ignore", "warum \u2026")
    assert code == 1 and "the file's encoding, iso-8859-1, lacks" in err
    assert project.file.read_bytes() == text.encode("latin-1")


@pytest.mark.skipif(os.name == "nt", reason="no such modes there")
def test_a_file_keeps_its_mode_and_a_link_its_target(project: Project) -> None:
    real = project.file.with_name("real.py")
    real.write_text(BODY + f"        {READ}\n", encoding="utf-8")
    real.chmod(0o750)
    project.file.symlink_to(real)
    project.scan("--add-ignore", "why")
    assert project.file.is_symlink() and real.stat().st_mode & 0o777 == 0o750
    assert real.read_text(encoding="utf-8").count("graphsafe: ignore") == 1


def test_only_what_fails_the_scan_gets_a_comment(project: Project) -> None:
    project.file.write_text(BODY + "        y = torch.empty_like(x)\n        return y.copy_(x)\n", encoding="utf-8")
    assert project.scan("--add-ignore", "why")[1] == "0 findings ignored\n"
    assert project.scan("--add-ignore", "why", "--fail-level", "note")[1] == "1 finding ignored in 1 file\n"


@pytest.mark.parametrize("reason", ["", "  ", "a\nb", "a # b", "a\x1b[2J"])
def test_a_reason_that_a_comment_cannot_say_is_refused(project: Project, reason: str) -> None:
    code, out, err = project.scan("--add-ignore", reason)
    assert (code, out) == (2, "") and "a reason is one line of text" in err


@pytest.mark.child
@pytest.mark.slow
def test_the_bad_cases_of_all_rules_are_clean_afterwards(project: Project) -> None:
    folder = project.file.parent
    sources: dict[Path, str] = {}
    for rule in load_rulebook().rules.values():
        for number, case in enumerate(rule.bad):
            path = folder / f"{rule.code.lower()}_{number}.py"
            sources[path] = case.code.replace("# expect: ", "# ")
            path.write_text(sources[path], encoding="utf-8")
    assert project.scan("--fail-level", "note")[0] == 1
    code, _, err = project.scan("--fail-level", "note", "--add-ignore", "a case")
    assert (code, err) == (0, "")
    assert project.shown() == []
    for path, text in sources.items():
        assert ast.dump(ast.parse(path.read_text(encoding="utf-8"))) == ast.dump(ast.parse(text))


@pytest.mark.parametrize(
    ("text", "own", "reason"),
    [
        ("# graphsafe: ignore[GS101] a reason", "# graphsafe: ignore[GS101] a reason", "a reason"),
        ("# type: ignore # graphsafe:ignore[GS101]  # noqa", "# graphsafe:ignore[GS101]", None),
        ("# graphsafe: ignore[GS101]# noqa", "# graphsafe: ignore[GS101]", None),
        ("# graphsafe: ignore see #12  # noqa", "# graphsafe: ignore see #12", "see #12"),
    ],
)
def test_a_suppression_is_told_from_other_comments(text: str, own: str, reason: str | None) -> None:
    found = comment_in(text, 1, 1)
    assert found is not None and (found.text, found.reason) == (own, reason)


def test_code_in_a_comment_suppresses_nothing(project: Project) -> None:
    line = "# x.item()  # graphsafe: ignore[GS101] old"
    project.file.write_text(BODY + f"        {line}\n        return x\n", encoding="utf-8")
    assert project.shown() == []
