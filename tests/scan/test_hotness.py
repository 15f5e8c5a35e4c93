"""`scan --explain-path` says why a function is hot, or what to write to make it so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import graphsafe
from graphsafe import cli

MODEL = """\
import torch
from torch import nn

import helpers
from helpers import pick


class Base(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            return pick(x)
        return self.check(x)

    def check(self, x):
        return helpers.slow(pick(x))

    def load_weights(self, weights):
        return refresh(weights)


class Model(Base):
    def scale(self, x):
        def inner(y):
            return y

        return inner(x)


def refresh(weights):
    return weights
"""
HELPERS = """\
def pick(x):
    return best(x)


def best(x):
    return x.argmax()


def slow(x):
    return x


def lonely(x):
    return x


def unlikely(x):  # graphsafe: cold
    return x


def step(x):  # graphsafe: hot
    return unlikely(x)
"""

Explain = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Exit code, lines of stdout, and stderr of `graphsafe scan . --explain-path NAME`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphsafe.toml").write_text('cold-paths = ["model:Model.scale"]\n', encoding="utf-8")
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")

    def run(name: str, path: str = ".", *options: str) -> tuple[int, list[str], str]:
        code = cli.main(["scan", path, "--explain-path", name, *options])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return run


def test_the_way_from_the_root_is_told_call_by_call(explain: Explain) -> None:
    assert explain("best") == (
        0,
        [
            "best (helpers.py:5) is hot.",
            "  root: Base.forward (model.py:9), forward of a torch module",
            "  model.py:11: Base.forward calls pick",
            "  helpers.py:2: pick calls best",
        ],
        "",
    )


@pytest.mark.parametrize(
    "name", ["Base.forward", "forward", "model:forward", "model.py:Base.forward", "./model.py:forward", "Model.forward"]
)
def test_a_function_can_be_named_in_several_ways(explain: Explain, name: str) -> None:
    assert explain(name) == (0, ["Base.forward (model.py:9) is hot: forward of a torch module."], "")


def test_of_overloads_the_last_is_meant(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def best(x): ...\n\n\n" + HELPERS, encoding="utf-8")
    assert explain("helpers:best")[1][0] == "best (helpers.py:8) is hot."


def test_a_mark_is_a_reason(explain: Explain) -> None:
    assert explain("helpers:step")[1] == ["step (helpers.py:21) is hot: marked hot."]


def test_a_file_that_cannot_be_read_is_no_use_of_a_function(explain: Explain, tmp_path: Path) -> None:
    broken = "import torch\n\n\nclass Old(torch.nn.Module):\n    def forward(self, x):\n        return unused(x)"
    (tmp_path / "broken.py").write_bytes(f"{broken}  # \xe9\n".encode("latin-1"))
    (tmp_path / "helpers.py").write_text(HELPERS + "\n\ndef unused(x):\n    return x\n", encoding="utf-8")
    code, out, _ = explain("unused")
    assert (code, out[1]) == (0, "  Nothing in the project names it.")


def test_what_is_behind_guards_only_is_said_to_be(explain: Explain) -> None:
    code, out, _ = explain("slow")
    assert code == 0 and out[0] == "slow (helpers.py:9) is hot."
    assert out[2:4] == [
        "  model.py:12: Base.forward calls Base.check, behind a guard that keeps it out of captures",
        "  model.py:15: Base.check calls slow, behind a guard that keeps it out of captures",
    ]
    assert "guarded" in out[4]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("load_weights", ["functions with a name such as `load_weights` run before the first step", "Nothing"]),
        (
            "unlikely",
            ["`# graphsafe: cold` marks it", "helpers.py:22: named in step, which is hot", "remove this mark"],
        ),
        ("Model.scale", ["cold-paths names it", "Nothing"]),
        ("refresh", ["no hot code", "model.py:18: named in Base.load_weights, which is not hot", '"model.py:refresh"']),
        ("lonely", ["no hot code", "Nothing in the project names it", '"helpers.py:lonely"']),
        ("inner", ["no hot code", "model.py:26: named in Model.scale", "on the function around it"]),
    ],
)
def test_what_is_not_hot_says_why_and_how_to_change_that(explain: Explain, name: str, said: list[str]) -> None:
    code, out, err = explain(name)
    assert (code, err) == (0, "")
    assert "is not hot" in out[0] and "To make it hot" in out[-1]
    for words in said:
        assert words in "\n".join(out)


def test_a_factory_is_read_for_its_step(explain: Explain, tmp_path: Path) -> None:
    factory = "from model import Model\n\n\ndef build(device):\n    return Model().to(device), (1,)\n"
    (tmp_path / "target.py").write_text(factory, encoding="utf-8")
    code, out, _ = explain("build")
    assert code == 0 and out[0].startswith("build (target.py:4) is not hot")
    assert out[-1] == "  It is a factory: scan reads it for the step that it returns, which is hot."


def test_following_the_advice_makes_it_hot(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "graphsafe.toml").write_text('hot-paths = ["helpers.py:lonely"]\n', encoding="utf-8")
    assert explain("lonely")[1] == ["lonely (helpers.py:13) is hot: named in hot-paths."]


def test_a_file_beside_the_given_ones_is_explained_all_the_same(explain: Explain) -> None:
    out = explain("best", "model.py")[1]
    assert out[0] == "best (helpers.py:5) is hot."
    assert out[-1] == "  Its file is not among the paths given: nothing is reported in it."


def test_every_root_of_a_large_project_counts(explain: Explain, tmp_path: Path) -> None:
    for number in range(320):
        text = f"import above{number + 1}\n\n\ndef down{number}(x):\n    return x\n"
        (tmp_path / f"above{number}.py").write_text(text, encoding="utf-8")
    root = "from above0 import down0\n\n\ndef step(x):  # graphsafe: hot\n    return down0(x)\n"
    (tmp_path / "above320.py").write_text(root, encoding="utf-8")
    assert explain("down0", "helpers.py")[1][:2] == [
        "down0 (above0.py:4) is hot.",
        "  root: step (above320.py:4), marked hot",
    ]


@pytest.mark.parametrize(
    ("name", "path", "options", "problem"),
    [
        ("bets", ".", [], "no such function in the project (did you mean best?)"),
        ("Base.chekc", ".", [], "did you mean Base.check"),
        ("Base", ".", [], "did you mean Base."),
        ("absent.py:best", ".", [], "absent.py is not among the files"),
        ("best", ".", ["--format", "json"], "neither --format nor -o"),
        ("best", ".", ["-o", "out.txt"], "neither --format nor -o"),
    ],
)
def test_a_name_that_means_nothing_is_a_wrong_request(
    explain: Explain, name: str, path: str, options: list[str], problem: str
) -> None:
    code, out, err = explain(name, path, *options)
    assert (code, out) == (2, [])
    assert problem in err


HELD = """\
class Engine:
    def __init__(self, x):
        self.n = x.cuda().sum().item()

    def load_weights(self, x):
        return x.cuda().sum().item()

    def warmup(self, x):
        return x.cuda().sum().item()

    def go(self, x):
        return x.cuda().sum().item()
"""


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ('hot-paths = ["m:Engine.load_weights", "m:Engine.__init__", "m:Engine.go"]', [3, 6, 12]),
        ('hot-paths = ["m:Engine.*"]', [12]),
        ('hot-paths = ["m:Engine.go", "m:Engine.warmup"]\ncold-paths = ["m:Engine.*"]', [9, 12]),
        ('hot-paths = ["m:Engine.go", "m:Engine.warmup"]\ncold-paths = ["m:Engine.warmup"]', [12]),
    ],
)
def test_a_hot_path_that_writes_out_a_name_is_hot_whatever_the_name(
    tmp_path: Path, settings: str, lines: list[int]
) -> None:
    (tmp_path / "m.py").write_text(HELD, encoding="utf-8")
    (tmp_path / "graphsafe.toml").write_text(settings, encoding="utf-8")
    report = graphsafe.scan(tmp_path)
    assert [finding.location.line for finding in report.findings if finding.code == "GS101"] == lines


MARKED = """\
import functools
import torch


@functools.cache  # graphsafe: hot
def on_a_decorator(x):
    return x.cuda().item()


def behind(
    x,
):  # graphsafe: hot
    return x.cuda().item()


# graphsafe: hot
def below(x):
    return x.cuda().item()


def misspelt(x):  # graphsafe: hto
    return x.cuda().item()


class Engine:  # graphsafe: hot
    def step(self, x):
        text = "# graphsafe: hot"
        return x.cuda().item()  # graphsafe: ignore[GS101] once


print("graphsafe: ")  # graphsafe: what follows was measured


def outer(x):
    def inner(y):  # graphsafe: cold
        return y.cuda().item()

    return inner(x)
"""


def test_a_mark_may_stand_on_any_line_of_the_head_and_is_told_if_it_marks_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MARKED, encoding="utf-8")
    for _ in range(2):  # the second report is from the cache
        report = graphsafe.scan(tmp_path)
        assert [finding.location.line for finding in report.findings if finding.suppressed is None] == [7, 13, 18]
        told = [limit for limit in report.limits if limit.kind == "unmatched-setting"]
        assert [(limit.what.rpartition("m.py:")[2], limit.why.partition(":")[0]) for limit in told] == [
            ("21 # graphsafe: hto", 'no such mark (did you mean "hot"?)'),
            ("25 # graphsafe: hot", "it marks no function"),
            ("35 # graphsafe: cold", "it marks no function"),
        ]
        assert "in no other function" in told[-1].why
