"""Projects that would keep a scan busy without end, or nearly so. What is counted is work, not time. In searches,
nothing else than time can be counted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphsafe import cli
from graphsafe.ignorefile import MAX_SIZE, read_patterns
from graphsafe.scan.domain import queries
from graphsafe.scan.execution import budget
from graphsafe.scan.execution.budget import MANY_KINDS
from graphsafe.scan.interpreter.calls.closures import TOO_NESTED, Closures
from graphsafe.scan.interpreter.calls.handed_to_loops import LOOPER
from graphsafe.scan.interpreter.calls.hooks import hooks_in
from graphsafe.scan.interpreter.construction.construction_sites import _CALL
from graphsafe.scan.interpreter.interpreter import LONG_CHAIN, Interpreter
from graphsafe.scan.linting.regions import _prefills
from graphsafe.scan.roots.broken_files import _FROM
from graphsafe.scan.roots.importers import _statements
from graphsafe.scan.roots.registered_functions import _TABLE
from graphsafe.scan.sources.find import files_below
from graphsafe.scan.sources.source import MAX_NAME
from graphsafe.scan.sources.suppress import comment_in
from graphsafe.scan.symbols.index import ClassFacts
from graphsafe.scan.symbols.overrides import subclasses_in
from graphsafe.scan.symbols.project import MAX_BASES, Project

HEAD = "import torch\nfrom functools import partial\nfrom torch import nn\n\n\n"
BOX = "class Box:\n    def __init__(self, x):\n        self.x = x\n\n\n"
STEP = """\
class Step(nn.Module):
    def forward(self, x: torch.Tensor):
        y = f0(x)
        return x * x.sum().item()
"""


@pytest.mark.parametrize(
    ("pattern", "ignores"),
    [("**/a/" * 8, True), ("**/a/" * 61, False), ("*a*" * 90, True), ("*a" * 90 + "b", False), ("**/*a*/" * 30, True)],
)
@pytest.mark.parametrize("times", [1, 300])
def test_patterns_of_many_stars_are_followed(tmp_path: Path, pattern: str, ignores: bool, times: int) -> None:
    """Tried one after the other, places of stars are too many to try: ignorefile.py follows all of them at once."""
    deep = tmp_path.joinpath(*"a" * 60, "a" * 200)
    deep.mkdir(parents=True)
    (deep / "a.py").touch()
    (tmp_path / ".gitignore").write_text(f"{pattern}\n" * times, encoding="utf-8")
    said: list[tuple[str, str, str]] = []
    found = [*files_below(tmp_path, complain=lambda *words: said.append(words))]
    assert found == ([] if ignores else [deep / "a.py"])
    assert said == []


def test_an_ignore_file_that_is_too_long_is_followed_up_to_a_line() -> None:
    lines = [f"{'a' * 99}{number}" for number in range(MAX_SIZE // 50)]
    patterns, faults = read_patterns(lines)
    ((line, why),) = faults
    assert why == f"patterns of more than {MAX_SIZE} characters are not followed"
    assert patterns.match(lines[line - 2]) and patterns.match(lines[line - 1]) is None
    brackets, faults = read_patterns(["[!a]" * 10] * 500)
    assert 90 < faults[0][0] < 110 and brackets.match("b" * 10)


@pytest.mark.child
@pytest.mark.parametrize(
    "body",
    [
        "return f{}((x, 1)), f{}((1, x))",
        "return f{}([x]) + f{}({{'a': x}})",
        "return f{}((x, x)), f{}((x,))",
        "return f{}(lambda: x), f{}(x)",
        "return f{}([lambda: x]), f{}((x, lambda: x))",
        "return f{}(partial(max, x)), f{}(partial(min, x))",
        pytest.param("return f{}((x,)), f{}([x]), f{n}({{'k': x}}), f{n}(lambda: x)", marks=pytest.mark.slow),
        "return f{}((1, *x[:6])), f{}((*x[1:], 2)), f{n}([x[1], x[0], 3]), f{n}((4, *x[:6])), f{n}((*x[1:6], 5))",
        "return f{}(Box(x)), f{}([Box(x), x])",
    ],
)
def test_arguments_that_nest_at_every_level_are_few(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty-four levels, each of which calls the next one twice, are sixteen million ways down."""
    levels = "".join(f"def f{n}(x):\n    {body.format(n + 1, n + 1, n=n + 1)}\n\n\n" for n in range(24))
    text = f"{HEAD}{BOX}{levels}def f24(x):\n    return x\n\n\n{STEP}"
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    count = 0
    work_out = queries.Queries._work_out

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count > 20_000:
            raise KeyboardInterrupt
        return work_out(*arguments)

    monkeypatch.setattr(queries.Queries, "_work_out", counted)
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "concise", "-j", "1"]) == 1
    assert "GS101" in capsys.readouterr().out


@pytest.mark.child
@pytest.mark.parametrize(
    ("level", "last"),
    [
        ("    def f{n}(x):\n        return f{next}(x), f{next}((x, 1))\n", "    def f{n}(x):\n        return x\n"),
        ("    f{n} = lambda x: (f{next}(x), f{next}(x))\n", "    f{n} = lambda x: x\n"),
    ],
)
def test_closures_that_call_the_next_one_twice_are_called_seldom(
    tmp_path: Path, level: str, last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = "".join(level.format(n=n, next=n + 1) for n in range(24, 0, -1))
    text = f"{HEAD}def f0(x):\n{last.format(n=25)}{levels}    return f1(x)\n\n\n{STEP}"
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    count = 0
    call = Closures._interpreted

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count > 20_000:
            raise KeyboardInterrupt
        return call(*arguments)

    monkeypatch.setattr(Closures, "_interpreted", counted)
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "json", "-j", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [finding["code"] for finding in report["findings"]] == ["GS101"]
    assert {limit["why"] for limit in report["limits"]} == {MANY_KINDS}


def test_objects_that_are_told_apart_by_what_they_were_given_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = "        self.k = k\n        self.a = M{next}(self)\n        self.b = M{next}((k, {n}))\n"
    init = "    def __init__(self, k):\n        super().__init__()\n"
    levels = "".join(f"class M{n}(nn.Module):\n{init}{made.format(n=n, next=n + 1)}\n\n" for n in range(40))
    last = f"class M40(nn.Module):\n{init}        self.k = k\n\n\n"
    step = STEP.replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n        self.m = M0(1)\n\n    def forward",
    ).replace("f0(x)", "self.m.a.b.a.k")
    build = "\n\ndef build(device):\n    return Step(), (torch.ones(3, device=device),)\n"
    (tmp_path / "step.py").write_text(f"{HEAD}{levels}{last}{step}{build}", encoding="utf-8")
    count = 0
    work_out = queries.Queries._work_out

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count > 40_000:
            raise KeyboardInterrupt
        return work_out(*arguments)

    monkeypatch.setattr(queries.Queries, "_work_out", counted)
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "concise", "-j", "1"]) == 1
    assert "GS101" in capsys.readouterr().out


def test_a_chain_of_thousands_of_bases_is_walked_a_little_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = "".join(f"class C{n}(C{n - 1}):\n    pass\n\n\n" for n in range(1, 3000))
    text = STEP.replace("Step", "C0").replace("f0(x)", "x") + "\n\n"
    (tmp_path / "step.py").write_text(f"{HEAD}{text}{chain}", encoding="utf-8")
    count = 0
    class_facts = Project.class_facts

    def counted(project: Project, ref: str) -> ClassFacts | None:
        nonlocal count
        count += 1
        return class_facts(project, ref)

    monkeypatch.setattr(Project, "class_facts", counted)
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "json", "-j", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "GS101" in {finding["code"] for finding in report["findings"]}
    why = f"too many bases; {MAX_BASES} classes are looked at"
    assert [(limit["what"].rpartition("::")[2], limit["why"]) for limit in report["limits"]] == [
        (f"C{MAX_BASES - 1}", why)
    ]
    assert 3000 < count < 1_000_000


def test_modules_that_all_call_one_another_are_read_seldom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two hundred modules in a circle of calls, each would be read once for each other one."""
    monkeypatch.setattr(budget, "READINGS", 5)
    modules = "".join(
        f"class C{n}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.a = C{(n * 7 + 1) % 200}()\n        self.b = C{(n * 3 + 2) % 200}()\n\n"
        "    def forward(self, x):\n        return self.a(x) + self.b(x).item()\n\n\n"
        for n in range(200)
    )
    (tmp_path / "step.py").write_text(f"{HEAD}{modules}", encoding="utf-8")
    count = 0
    read = Interpreter._read

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return read(*arguments)

    monkeypatch.setattr(Interpreter, "_read", counted)
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "json", "-j", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert len([one for one in report["findings"] if one["code"] == "GS101"]) == 200
    assert {limit["why"] for limit in report["limits"]} == {MANY_KINDS, LONG_CHAIN}
    assert 400 < count <= 400 * (5 + 2 * budget.READINGS_FOR_EACH), "two functions in each module, two kinds of each"


def test_a_long_chain_of_calls_is_followed_in_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n\n\n" for n in range(400))
    (tmp_path / "step.py").write_text(f"{HEAD}{STEP}{calls}def f400(x):\n    return x.nonzero()\n", encoding="utf-8")
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "json", "-j", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    (finding,) = [one for one in report["findings"] if one["code"] == "GS201"]
    assert (finding["confidence"], len(finding["call_chain"])) == ("likely", 401)
    assert [limit["why"] for limit in report["limits"]] == [LONG_CHAIN] * 2


@pytest.mark.parametrize(("depth", "findings", "whys"), [(20, 1, []), (60, 0, [TOO_NESTED])])
def test_too_many_nested_closures_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], depth: int, findings: int, whys: list[str]
) -> None:
    inner = "".join(f"    def f{n}(x):\n        return f{n - 1}(x)\n\n" for n in range(1, depth + 1))
    body = f"def f0(x):\n    def f0(x):\n        return x.nonzero()\n\n{inner}    return f{depth}(x)\n"
    (tmp_path / "step.py").write_text(f"{HEAD}{STEP}{body}", encoding="utf-8")
    cli.main(["scan", str(tmp_path), "--no-cache", "--format", "json", "-j", "1"])
    report = json.loads(capsys.readouterr().out)
    assert len([one for one in report["findings"] if one["code"] == "GS201"]) == findings
    assert [limit["why"] for limit in report["limits"]] == whys


def test_a_long_chain_of_attributes_has_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{HEAD}{STEP}".replace("f0(x)", "x" + ".a" * 20_000)
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    began = time.process_time()
    cli.main(["scan", str(tmp_path), "--no-cache", "--format", "json", "-j", "1"])
    assert time.process_time() - began < 10
    report = json.loads(capsys.readouterr().out)
    # From Python 3.13 on, Python's own parser refuses the file.
    said = [*(limit["why"] for limit in report["limits"]), *(one["message"] for one in report["findings"])]
    assert any("nested too deeply" in one for one in said)


LONG = 200_000
"So many characters take a tenth of a second in a search that is linear, and a minute or more in one that is not."


@pytest.mark.parametrize(
    "search",
    [
        lambda: [*subclasses_in(b"class Q(" + b"a" * LONG + b".b):")],
        lambda: [*subclasses_in(b"class A[ " * LONG)],
        lambda: [*subclasses_in(b"class A( " * LONG)],
        lambda: [*subclasses_in(b"class A(" + b"b[ " * LONG + b"):")],
        lambda: [*subclasses_in(b"class A(b" + b" " * LONG + b".):")],
        lambda: comment_in("# graphsafe: ignore [GS101 " * (LONG // 10), 1, 1),
        lambda: comment_in("# graphsafe" + " " * LONG + "x", 1, 1),
        lambda: LOOPER.search(b"def " + b"bench" * LONG + b":"),
        lambda: [*hooks_in(b"def f(module, " + b"args " * LONG)],
        lambda: _CALL.findall(b"A" * LONG),
        lambda: _prefills("prefill" * LONG + "decode" + "x" * LONG),
        lambda: _FROM.findall(b"from " + b"." * LONG),
        lambda: [*_statements(b"x import " * LONG)],
        lambda: _TABLE.search(b"\nA" + b"B" * LONG),
    ],
    ids=lambda _: "search",
)
def test_searches_take_time_in_proportion_to_the_text(search: Callable[[], object]) -> None:
    began = time.process_time()
    search()
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            f"{HEAD}class {'Prefill' * 200}(nn.Module):\n    def forward(self): pass\n",
            f"a name of more than {MAX_NAME} characters",
        ),
        ("# coding: punycode\nx = 1\n", "punycode is an encoding of host names: save the file as UTF-8"),
    ],
)
def test_a_file_that_is_slow_to_read_is_not_read(
    tmp_path: Path, lines: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step.py").write_text(f"{HEAD}{STEP}".replace("f0(x)", "x"), encoding="utf-8")
    (tmp_path / "slow.py").write_text(lines, encoding="utf-8")
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "json", "-j", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(one["code"], why in one["message"]) for one in report["findings"]] == [("GS900", True), ("GS101", False)]


def test_a_long_string_is_no_long_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{HEAD}TABLE = '{'A' * 5000}'\n\n\n{STEP}".replace("f0(x)", "x")
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    assert cli.main(["scan", str(tmp_path), "--no-cache", "--format", "concise", "-j", "1"]) == 1
    assert "GS101" in capsys.readouterr().out


def test_bases_are_found_with_and_without_brackets() -> None:
    text = b"class A(B[dict[str, int], T], C,\n    mod.D , metaclass=E): ...\nclass F[T: int](G): ...\nclass H: ...\n"
    found = [*subclasses_in(text)]
    assert {("B", "A"), ("C", "A"), ("D", "A"), ("G", "F")} <= {*found}
