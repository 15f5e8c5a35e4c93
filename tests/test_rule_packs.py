"""A project's own rules and library models: calls by name, packs in use, and the files that `rules test` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe import cli, scan
from graphsafe.optable import OpTable
from graphsafe.rulebook.book import load_rulebook
from graphsafe.rulebook.vocabulary import HOWS
from graphsafe.scan.models.operations import EVENT_OF_EFFECT

EXAMPLE = Path(__file__).parents[1] / "examples" / "packs" / "flash_attn"
RULE = """\
code: OUR101
name: never-call-this
level: warning
summary: It is called in a step.
what: Text.
why: Text.
fix: Text.
fix_short: call the other one
message: "{value} is not for steps"
match:
  - call: [NAMES]
cases:
  bad:
    - title: a call
      code: |
        import ours
        from torch import nn


        class Step(nn.Module):
            def forward(self, x):
                return ours.dump(x)  # expect: OUR101
  good:
    - title: none
      code: |
        x = 1
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.graphsafe]\nrules = ["pack"]\n', encoding="utf-8")
    (tmp_path / "pack").mkdir()
    return tmp_path


def write(project: Path, names: str) -> None:
    (project / "pack" / "rule.yaml").write_text(RULE.replace("NAMES", names), encoding="utf-8")


def found(project: Path, body: str, head: str = "") -> list[tuple[str, int]]:
    step = "class Step(torch.nn.Module):\n    def forward(self, x: torch.Tensor):"
    text = f"import torch\n{head}\n\n\n{step}\n        {body}\n"
    (project / "step.py").write_text(text, encoding="utf-8")
    return [(one.message, one.location.line) for one in scan("step.py").findings if one.code == "OUR101"]


def test_the_example_passes_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rules", "test", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out == "4 of 4 cases passed\n"


def test_a_case_that_is_not_python_proves_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pack" / "rule.yaml").write_text(
        RULE.replace("NAMES", "ours.dump").replace("x = 1", "x = (1"), encoding="utf-8"
    )
    assert cli.main(["rules", "test", "pack"]) == 1
    assert "OUR101 good case 'none': line 1 of the case: this file cannot be parsed" in capsys.readouterr().out


def test_the_example_in_use(project: Path) -> None:
    (project / "pyproject.toml").write_text(f'[tool.graphsafe]\nrules = ["{EXAMPLE}"]\n', encoding="utf-8")
    (project / "step.py").write_text(
        "import torch\nfrom flash_attn import flash_attn_func\nfrom flash_attn.bert_padding import unpad_input\n\n\n"
        "class Step(torch.nn.Module):\n    def forward(self, x: torch.Tensor, mask: torch.Tensor):\n"
        "        y = unpad_input(x, mask)[0]\n        return flash_attn_func(y, y, y).max().item()\n",
        encoding="utf-8",
    )
    codes = [(one.code, one.location.line) for one in scan("step.py").findings]
    assert codes == [("FLA101", 8), ("GS106", 8), ("GS101", 9)]


@pytest.mark.parametrize(
    ("names", "body", "head"),
    [
        ("ours.dump", "ours.dump(x); return x", "import ours"),
        ("ours.dump", "return dump(x)", "from ours import dump"),
        ('"ours.*"', "return o.deep.er(x)", "import ours as o"),
        ("torch.Tensor.register_hook", "x.register_hook(print); return x", ""),
        ("torch.cuda.empty_cache", "torch.cuda.empty_cache(); return x", ""),
        ("helpers.debug.dump", "return dump(x)", "from helpers.debug import dump"),
        ("helpers.debug.Log.add", "Log().add(x); return x", "from helpers.debug import Log"),
        ('"*.Log.*"', "Log().add(x); return x", "from helpers.debug import Log"),
    ],
)
def test_a_call_by_name(project: Path, names: str, body: str, head: str) -> None:
    (project / "helpers").mkdir()
    (project / "helpers" / "__init__.py").touch()
    debug = "def dump(x):\n    return x\n\n\nclass Log:\n    def add(self, x):\n        pass\n"
    (project / "helpers" / "debug.py").write_text(debug, encoding="utf-8")
    write(project, names)
    ((message, line),) = found(project, body, head)
    assert line == 7 and message.endswith("is not for steps")


@pytest.mark.parametrize(
    ("names", "body", "head"),
    [
        ("ours.dump", "return ours.dumps(x)", "import ours"),
        ("ours.dump", "return dump(x)", "from theirs import dump"),
        ("ours.dump", "return ours.dump", "import ours"),
        ('"ours.*"', "return x", "import ours\nours.dump(1)"),
    ],
)
def test_what_is_no_such_call(project: Path, names: str, body: str, head: str) -> None:
    write(project, names)
    assert found(project, body, head) == []


def test_a_guard_makes_it_a_note(project: Path) -> None:
    write(project, "ours.dump")
    body = "if not torch.cuda.is_current_stream_capturing():\n            ours.dump(x)\n        return x"
    assert found(project, body, "import ours")
    assert [one.level for one in scan("step.py").findings if one.code == "OUR101"] == ["note"]


def test_library_models_of_a_project(project: Path) -> None:
    body = "return ours.lookup(x).sum().item()"
    (project / "pack" / "libraries.yaml").write_text(
        "ours:\n  - {names: [ours.lookup], returns: host-tensor}\n", encoding="utf-8"
    )
    write(project, "ours.none")
    found(project, body, "import ours")
    assert [one.code for one in scan("step.py").findings] == []
    (project / "pack" / "libraries.yaml").write_text(
        "ours:\n  - {names: [ours.lookup], returns: tensor, waits: true}\n", encoding="utf-8"
    )
    assert sorted(one.code for one in scan("step.py").findings) == ["GS101", "GS106"]


def test_rules_test_uses_the_models_of_its_pack(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pack" / "libraries.yaml").write_text(
        "ours:\n  - {names: [ours.dump], returns: host-tensor}\n", encoding="utf-8"
    )
    rule = RULE.replace("- call: [NAMES]", "- {event: HostRead, how: [method]}").replace(
        "return ours.dump(x)  # expect: OUR101", "return x.sum().item()  # expect: OUR101"
    )
    step = rule[rule.index("        import ours") : rule.index("  good:")]
    good = rule.replace("        x = 1\n", step.replace("x.sum().item()  # expect: OUR101", "ours.dump(x).item()"))
    (project / "pack" / "rule.yaml").write_text(good, encoding="utf-8")
    assert cli.main(["rules", "test", "pack"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('"{value} is', '"{valeu} is'), 'message: unknown placeholder {valeu} (did you mean "value"?)'),
        (("call the other one", "call {zzzz}"), "fix_short: unknown placeholder {zzzz}; there are expr, value,"),
        (("- call: [NAMES]", "- {call: [a.b], message: '{gone}'}"), "match[0].message: unknown placeholder {gone}"),
        (("- call: [NAMES]", "- {call: [a.b], how: [method]}"), "match[0].how: belongs to `event`"),
        (("- call: [NAMES]", "- {call: [a.b], event: Store}"), "match[0]: expected either `event` or `call`"),
        (("- call: [NAMES]", "- {event: Call}"), "match[0].event: say `call: [NAME, ...]` instead"),
        (
            ("- call: [NAMES]", "- {event: Store, how: [scaler]}"),
            "match[0].how: expected one of by-index, host-part, host-tensor, scalar,",
        ),
        (("- call: [NAMES]", "- {calls: [a.b]}"), 'match[0].calls: unknown key (did you mean "call"?)'),
        (("[NAMES]", "[dump]"), "match[0].call: expected a dotted name such as library.module.function, got 'dump'"),
        (("level: warning", "level: warning\nfixes: [ful]"), "fixes[0]: expected one of"),
        (("summary:", "sumary: x\nsummary:"), 'sumary: unknown key (did you mean "summary"?)'),
    ],
)
def test_rules_test_refuses(
    project: Path, change: tuple[str, str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = RULE.replace(*change).replace("NAMES", "ours.dump")
    (project / "pack" / "rule.yaml").write_text(rule, encoding="utf-8")
    assert cli.main(["rules", "test", "pack"]) == 2
    err = capsys.readouterr().err
    assert problem in err and err.count("\n") == 1 and "pack/rule.yaml" in err


def test_every_event_happens_as_it_is_said() -> None:
    matches = [match for rule in load_rulebook().rules.values() for match in rule.matches]
    used = {(match.event, how) for match in matches if match.event != "Call" for how in match.how}
    assert not [(event, how) for event, how in used if how not in HOWS[event]]
    table = OpTable(Path(__file__).parents[1] / "rules" / "ops")
    said = {(EVENT_OF_EFFECT.get(effect.kind), effect.how) for op in table.ops() for effect in op.effects}
    assert not [(event, how) for event, how in said if event is not None and how not in HOWS[event] | {"draw"}]
