"""--fix: its edits, equal results of the step on the CPU, and the code that it does not change."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fix_pairs import Pair, inputs, pairs, step_class

from graphsafe import cli
from graphsafe.fixes.apply import apart, edited
from graphsafe.report.json_form import read_saved
from graphsafe.report.model import Edit, Finding, Location, Report
from graphsafe.rulebook.book import load_rulebook
from graphsafe.rulebook.vocabulary import FIXES
from graphsafe.scan.sources.source import Unreadable

BOTH = [pytest.param(pair, id=pair.name) for pair in pairs()]
FIXED = [pytest.param(pair, id=pair.name) for pair in pairs() if pair.none is None]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.graphsafe]\n", encoding="utf-8")
    return tmp_path / "step.py"


def fix(file: Path, *options: str) -> str:
    assert cli.main(["scan", str(file), "--fix", "--exit-zero", *options]) == 0
    return file.read_text(encoding="utf-8")


def codes(folder: Path) -> Counter[str]:
    cli.main(["scan", str(folder), "-o", str(folder / "r.json")])
    report = read_saved(folder / "r.json")
    assert isinstance(report, Report)
    return Counter(finding.code for finding in report.findings if finding.level != "note")


def test_there_are_enough_pairs_of_every_fix() -> None:
    fixed = Counter(pair.fix for pair in pairs() if pair.none is None)
    lacking = FIXES.keys() - fixed.keys()
    assert not lacking, f"tests/data/fixes.yaml has no pair for {sorted(lacking)}"
    assert fixed.keys() <= FIXES.keys(), "tests/data/fixes.yaml has pairs of a fix that vocabulary.py does not name"
    assert sum(fixed.values()) >= 60


def test_every_fix_belongs_to_a_rule() -> None:
    named = {name for rule in load_rulebook().rules.values() for name in rule.fixes}
    assert named >= FIXES.keys(), f"no rule has {sorted(FIXES.keys() - named)} under `fixes`"
    assert named <= FIXES.keys(), f"vocabulary.py does not name {sorted(named - FIXES.keys())}"


def check_names(fix: str) -> None:
    """Fail with one line if a file that has to name a fix does not name it."""
    rules = load_rulebook().rules.values()
    assert fix in FIXES, f"src/graphsafe/rulebook/vocabulary.py does not name {fix}"
    assert any(fix in rule.fixes for rule in rules), f"no file in rules/ names {fix} under `fixes:`"


def test_a_fix_that_a_file_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    check_names("full")
    with pytest.raises(AssertionError, match=r"vocabulary\.py does not name slice-for-list"):
        check_names("slice-for-list")
    monkeypatch.setitem(FIXES, "slice-for-list", None)
    with pytest.raises(AssertionError, match="no file in rules/ names slice-for-list under `fixes:`"):
        check_names("slice-for-list")


@pytest.mark.parametrize("pair", BOTH)
def test_what_it_writes(pair: Pair, file: Path) -> None:
    check_names(pair.fix)
    file.write_text(pair.before, encoding="utf-8")
    if not pair.is_safe:
        assert fix(file) == pair.before
    after = fix(file, *[] if pair.is_safe else ["--unsafe-fixes"])
    assert after == pair.after
    assert fix(file, "--unsafe-fixes") == after


@pytest.mark.parametrize("pair", FIXED)
def test_the_finding_is_gone(pair: Pair, file: Path) -> None:
    check_names(pair.fix)
    rules = [code for code, rule in load_rulebook().rules.items() if pair.fix in rule.fixes]
    file.write_text(pair.before, encoding="utf-8")
    before = codes(file.parent)
    file.write_text(pair.after, encoding="utf-8")
    after = codes(file.parent)
    assert any(after[code] < before[code] for code in rules)
    assert not after - before


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair.name) for pair in pairs() if pair.cpu is None])
def test_the_step_stays_the_same_on_the_cpu(pair: Pair) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    before = step_class(pair.before)()
    torch.manual_seed(0)
    after = step_class(pair.after)()
    for seed in range(4):
        old, new = before(*inputs(pair, seed)), after(*inputs(pair, seed))
        assert old.dtype == new.dtype and torch.equal(old, new)
    state = after.state_dict()
    assert state.keys() == before.state_dict().keys()
    assert all(torch.equal(value, state[name]) for name, value in before.state_dict().items())


STEP = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + torch.tensor(3.0, device=x.device)
"""


def test_encoding_line_ends_and_mode_stay(file: Path) -> None:
    text = "# coding: latin-1\n# Grüße\n" + STEP.rstrip("\n")
    file.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    file.chmod(0o755)
    fix_bytes(file)
    after = text.replace("torch.tensor(3.0", "torch.full((), 3.0")
    assert file.read_bytes() == after.replace("\n", "\r\n").encode("latin-1")
    assert file.stat().st_mode & 0o777 == 0o755


def fix_bytes(file: Path) -> None:
    assert cli.main(["scan", str(file), "--fix"]) == 0


def test_a_byte_order_mark_and_wide_characters_stay(file: Path) -> None:
    text = STEP.replace("return x", 'return "é😀" and x')
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    fix_bytes(file)
    assert file.read_bytes() == b"\xef\xbb\xbf" + text.replace("torch.tensor(3.0", "torch.full((), 3.0").encode()


def test_what_is_suppressed_or_not_selected_stays(file: Path) -> None:
    file.write_text(STEP.rstrip("\n") + "  # graphsafe: ignore[GS301] once\n", encoding="utf-8")
    assert "torch.tensor" in fix(file)
    file.write_text(STEP, encoding="utf-8")
    assert "torch.tensor" in fix(file, "--select", "GS1")
    assert "torch.full" in fix(file, "--select", "GS3")


def test_a_diff_that_patch_takes(file: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file.write_bytes(b"\n" * 3 + STEP.rstrip("\n").replace("    ", "\t").encode())
    before = file.read_bytes()
    assert cli.main(["scan", ".", "--diff-fixes"]) == 1
    diff = capfdbinary.readouterr().out
    assert file.read_bytes() == before
    assert diff.startswith(b"--- a/step.py\n+++ b/step.py\n@@ ")
    subprocess.run(["git", "apply", "-"], cwd=file.parent, input=diff, check=True)
    assert file.read_bytes() == before.replace(b"torch.tensor(3.0", b"torch.full((), 3.0")


@pytest.mark.parametrize("option", ["--diff-fixes", "--fix"])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("return x[x > 0] * x.sum().item()", "no finding has an automatic repair; 2 findings left"),
        (
            "return nn.functional.one_hot(x.argmax(-1)) * x.sum().item()",
            "no finding has a safe automatic repair; 2 findings left, 1 of them with an unsafe repair (--unsafe-fixes)",
        ),
        ("return x", None),
    ],
)
def test_findings_without_a_repair_are_counted(
    line: str, said: str | None, option: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "import torch",
        "from torch import nn",
        "class Step(nn.Module):",
        "    def forward(self, x: torch.Tensor):",
    ]
    file.write_text("\n".join([*lines, f"        {line}", ""]), encoding="utf-8")
    assert cli.main(["scan", ".", option]) == (0 if said is None else 1)
    out, err = capsys.readouterr()
    nothing = "" if option == "--diff-fixes" else "graphsafe: 0 findings fixed in 0 files\n"
    assert err == (nothing if said is None else f"graphsafe: {said}\n")
    assert option == "--fix" or not out


def test_edits_are_in_the_report(file: Path) -> None:
    file.write_text(STEP, encoding="utf-8")
    cli.main(["scan", "step.py", "-o", "r.json"])
    report = read_saved(file.with_name("r.json"))
    assert isinstance(report, Report)
    (finding,) = report.findings
    (edit,) = finding.edits
    line = STEP.split("\n")[edit.line - 1]
    assert line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :] == line.replace(
        "torch.tensor(3.0", "torch.full((), 3.0"
    )
    assert finding.data["edits"] == "safe"


@pytest.mark.parametrize(
    "body",
    [
        "return x + torch.tensor(x.sum(), device=x.device)",
        "return x + torch.tensor([1.0, 2.0], device=x.device, pin_memory=False)",
        "rows = x.argmax(-1)\n        x[rows] = -1e4\n        return x",
        "return torch.linalg.eigvalsh(x)",
        "return torch.linalg.inv(x, out=x)",
        "return torch.nn.functional.one_hot(x.long())",
        "return torch.nonzero(x > 0)",
        "return x.long().repeat_interleave(x[0].long())",
        "return torch.repeat_interleave(x, x[0].long(), dim=0).view(8, -1)",
        "return torch.repeat_interleave(x, x[0].long()).view(-1, 2)",
        "return (x > 0).nonzero(as_tuple=True)[1].view(-1, 2)",
        "rest = -1\n        return (x > 0).nonzero(as_tuple=True)[1].view(rest, 2)",
        "times = torch.ones_like(x)\n        x = x[:2]\n        return x.repeat_interleave(times)",
    ],
)
def test_what_is_not_known_to_be_right_is_left_alone(body: str, file: Path) -> None:
    text = STEP.replace("return x + torch.tensor(3.0, device=x.device)", body)
    file.write_text(text, encoding="utf-8")
    assert fix(file, "--unsafe-fixes") == text


def test_stdin_is_never_fixed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(STEP.encode())))
    assert cli.main(["scan", "-", "--fix"]) == 2


def test_start_up_needs_no_libcst() -> None:
    script = "import sys, graphsafe.fixes.proposals, graphsafe.fixes.proposals; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


FINDING = Finding(
    code="GS301",
    rule="literal-to-device",
    level="error",
    confidence="likely",
    source="scan",
    device=None,
    location=Location("step.py", 1, 1, 1, 2, None),
    call_chain=(),
    message="m",
    why="w",
    fix="f",
)
TWO = """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor):
        y = x * torch.tensor([1.0, 2.0], device=x.device)
        return y + torch.tensor([3.0, 4.0], device=x.device)
"""


def test_fixes_that_overlap_are_made_one_after_the_other(file: Path) -> None:
    """Both fixes add a line below the same line."""
    file.write_text(TWO, encoding="utf-8")
    after = fix(file, "--unsafe-fixes")
    assert after.count("register_buffer") == 2
    assert 'self.register_buffer("literal", torch.tensor([1.0, 2.0]), persistent=False)' in after
    assert 'self.register_buffer("literal_2", torch.tensor([3.0, 4.0]), persistent=False)' in after
    assert "y = x * self.literal\n        return y + self.literal_2\n" in after
    assert fix(file, "--unsafe-fixes") == after


def test_a_buffer_gets_a_name_that_no_base_class_has(file: Path) -> None:
    text = TWO.replace(
        "        y = x *", "        type = torch.tensor([5.0, 6.0], device=x.device)\n        y = x * type +"
    )
    file.write_text(text, encoding="utf-8")
    after = fix(file, "--unsafe-fixes")
    assert "type = self.type_literal\n" in after and "y = x * type + self.literal" in after


def test_a_literal_with_a_comment_stays(file: Path) -> None:
    file.write_text(TWO.replace("[1.0, 2.0],", "[1.0, 2.0],  # from the paper\n           "), encoding="utf-8")
    after = fix(file, "--unsafe-fixes")
    assert after.count("# from the paper") == 1 and after.count("register_buffer") == 1


def test_edits_that_touch_each_other_are_told_apart() -> None:
    def one(*spans: tuple[int, int, int, int]) -> Finding:
        return replace(FINDING, edits=tuple(Edit(*span, "x") for span in spans))

    inner, outer, behind = one((1, 5, 1, 9)), one((1, 1, 1, 20)), one((1, 20, 1, 22))
    same_place, far = one((1, 22, 1, 22), (7, 1, 7, 2)), one((1, 22, 1, 22))
    edits, taken = apart([outer, inner, behind, same_place, far])
    assert taken == [outer, behind, same_place] and edits == [*outer.edits, *behind.edits, *same_place.edits]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_edits_over_several_lines(newline: str) -> None:
    text = "a = [\n    1,  # é\n    2,\n]\nb = 3".replace("\n", newline).encode()
    after = edited(text, [Edit(2, 5, 3, 6, "7"), Edit(5, 5, 5, 6, "4\nc = 5")])
    assert after == "a = [\n    7,\n]\nb = 4\nc = 5".replace("\n", newline).encode()


def test_what_would_not_be_python_is_not_written() -> None:
    with pytest.raises(Unreadable, match="would produce invalid Python"):
        edited(b"a = 1\n", [Edit(1, 5, 1, 6, "(")])


def test_a_file_that_cannot_be_written_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path, content: bytes, before: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    file.write_text(STEP, encoding="utf-8")
    monkeypatch.setattr("graphsafe.held_files.write_atomically", refuse)
    assert cli.main(["scan", "step.py", "--fix"]) == 1
    assert "graphsafe: step.py: Permission denied\n" in capfd.readouterr().err


def test_only_changed_lines_are_fixed(file: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=file.parent, check=True)

    file.write_text(STEP, encoding="utf-8")
    git("init", "-q")
    git("add", "step.py")
    git("commit", "-qm", "x")
    file.write_text(
        STEP.replace("return x", "y = x * torch.tensor(2, device=x.device)\n        return y"), encoding="utf-8"
    )
    after = fix(file, "--diff", "HEAD")
    assert "torch.full((), 2" in after
    text = STEP.replace("        return", "        z = 1\n        return")
    file.write_text(text, encoding="utf-8")
    assert fix(file, "--diff", "HEAD") == text


def test_unsafe_fixes_are_named_in_order_at_the_lines_before_any_fix(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed lines are those before any fix, even if fixes add lines or if later rounds fix the same line."""
    body = "\n".join(
        (
            "        first = x + torch.tensor([1.0, 2.0], device=x.device)",
            "        self.total = self.total + first",
            "        second = x + torch.tensor([3.0, 4.0], device=x.device)",
            "        return second + self.total",
        )
    )
    head = STEP.split("    def forward")[0]
    made = "    def __init__(self):\n        super().__init__()\n        self.total = torch.zeros(2)\n\n"
    file.write_text(f"{head}{made}    def forward(self, x: torch.Tensor):\n{body}\n", encoding="utf-8")
    lines = file.read_text(encoding="utf-8").splitlines()
    cli.main(["scan", str(file), "--fix", "--unsafe-fixes", "-q", "--exit-zero"])
    told = [line for line in capsys.readouterr().err.splitlines() if ": unsafe: " in line]
    numbers = [int(line.split(":")[-3]) for line in told]
    assert numbers == sorted(numbers) and len(numbers) >= 3
    assert all("torch.tensor" in lines[number - 1] or "self.total" in lines[number - 1] for number in numbers)
