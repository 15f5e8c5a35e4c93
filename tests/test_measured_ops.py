"""Compare measurements on GPUs (rules/ops/torch-X.Y.json) with the rules and the op table.

tests/data/op_exceptions.yaml gives the reason for each difference. A test fails for a difference without a reason, and
for a reason without a difference. tests/capture/sim/test_atlas.py compares the simulated device, which reads the op
table as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from op_snippets import breaks, catalogue, measured, measured_files

from graphsafe.optable import Op, OpTable

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "tests" / "data" / "op_exceptions.yaml"
WAITS = frozenset({"reads-host", "dynamic-shape", "hidden-sync", "waits", "copies"})
"The effects in the op table that make the host wait for the device."

Entries = Mapping[str, Mapping[str, Any]]


@pytest.fixture(params=measured_files(), ids=lambda path: path.stem)
def entries(request: pytest.FixtureRequest) -> Entries:
    found: Entries = measured(request.param)["entries"]
    return found


@pytest.fixture(scope="module")
def table() -> OpTable:
    return OpTable(ROOT / "rules" / "ops")


@pytest.fixture(scope="module")
def accuracy() -> Iterator[ModuleType]:
    sys.path.append(str(ROOT / "benchmarks" / "scan"))
    import atlas_accuracy

    yield atlas_accuracy
    sys.path.remove(str(ROOT / "benchmarks" / "scan"))


def exceptions(part: str) -> set[str]:
    return set(yaml.safe_load(EXCEPTIONS.read_text(encoding="utf-8"))[part])


def compare_with_reasons(differences: Mapping[str, str], part: str) -> None:
    """Fail with one line for each difference that has no reason, and for each reason that has no difference."""
    reasons = exceptions(part)
    lines = [f"{name}: {text}" for name, text in differences.items() if name not in reasons]
    lines += [f"{name}: nothing differs any more; remove the reason" for name in sorted(reasons - differences.keys())]
    if lines:
        pytest.fail(f"tests/data/op_exceptions.yaml, part `{part}`:\n" + "\n".join(lines), pytrace=False)


def test_a_difference_without_a_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "exceptions", lambda part: {"known", "old"})
    compare_with_reasons({"known": "waits", "old": "waits"}, "scan")
    with pytest.raises(pytest.fail.Exception) as raised:
        compare_with_reasons({"known": "waits", "new": "expected nothing, found GS106"}, "scan")
    assert str(raised.value).splitlines() == [
        "tests/data/op_exceptions.yaml, part `scan`:",
        "new: expected nothing, found GS106",
        "old: nothing differs any more; remove the reason",
    ]


def test_what_was_measured_is_what_the_snippets_say_today(entries: Entries) -> None:
    snippets = catalogue().snippets
    assert list(entries) == sorted(entries)
    for name, entry in entries.items():
        assert entry["step"] == snippets[name].step, f"{name}: measure it again (scripts/measure_ops.py)"


def test_codes_are_given_to_what_breaks_a_capture_and_to_nothing_else(entries: Entries) -> None:
    for name, entry in entries.items():
        snippet = catalogue().snippets[name]
        assert all(re.fullmatch(r"GS[1-8]\d\d", code) for code in snippet.codes), name
        if breaks(entry) is None:
            assert not snippet.codes, name
        elif breaks(entry) != bool(snippet.codes):
            assert snippet.judgement is not None, name


@pytest.mark.child
@pytest.mark.slow
@pytest.mark.parametrize("wrapping", ["buffers", "attributes"])
def test_rules_find_what_was_measured_to_break_a_capture(accuracy: ModuleType, wrapping: str, tmp_path: Path) -> None:
    wrong = {}
    for group in filter(accuracy.snippets_of, accuracy.GROUPS):
        (tmp_path / group).mkdir()
        for row in accuracy.measure(group, wrapping, tmp_path / group).wrong:
            wrong[row.name] = f"expected {row.expected or 'nothing'}, found {row.found or 'nothing'}: {row.step!r}"
    compare_with_reasons(wrong, "scan")


def test_the_op_table_waits_where_the_gpu_did(entries: Entries, table: OpTable) -> None:
    """An operation that waited has an effect that waits. If an operation always waits according to the table, no
    captured step contains it."""
    found: dict[str, str] = {}
    for name, entry in entries.items():
        for operation, waits in {**(entry.get("ops") or {}), **(entry.get("calls") or {})}.items():
            if "::" in operation:
                op = table.aten(*operation.split(".")[:2])
            elif operation.startswith("torch.") and not operation.startswith("torch._"):
                op = table.python(operation)
            else:
                continue
            if waits and (op is None or not any(effect.kind in WAITS for effect in op.effects)):
                found.setdefault(operation.split(".")[0] if "::" in operation else operation, f"waits in {name}")
            if entry.get("capture") == "ok" and op is not None and always_waits(op):
                found.setdefault(operation, f"is captured in {name}")
    compare_with_reasons(found, "table")


def always_waits(op: Op) -> bool:
    return any(
        effect.kind in WAITS - {"copies"} and effect.when is None and effect.unless is None and not effect.sometimes
        for effect in op.effects
    )


def test_sums_in_any_order_are_marked(entries: Entries, table: OpTable) -> None:
    """If a snippet's results differ from run to run, or if PyTorch calls it nondeterministic, one of its operations is
    marked."""
    found = {
        name: "differs from run to run, but no operation is marked"
        for name, entry in entries.items()
        if (entry.get("repeats") is False or entry.get("alerts"))
        and not any(table.is_nondeterministic(*operation.split(".")[:2]) for operation in entry.get("ops") or ())
    }
    compare_with_reasons(found, "order")
