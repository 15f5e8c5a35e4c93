"""The op table has answers for Python names and aten names. The answer is "perhaps" if it depends on an unknown
argument."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from op_snippets import measured, measured_files

from graphsafe.optable import Argument, Call, OpTable, OpTableError, Result
from graphsafe.optable.entries import version_matches
from graphsafe.optable.rows import EFFECT_KEYS, ENTRY_KEYS
from graphsafe.rulebook.book import load_rulebook
from graphsafe.scan.models.operations import EVENT_OF_EFFECT

ROOT = Path(__file__).resolve().parent.parent
TENSOR = Argument("tensor", text="x")
OTHER = Argument("tensor", text="y")


@pytest.fixture(scope="module")
def table() -> OpTable:
    return OpTable(ROOT / "rules" / "ops")


def rules_of(table: OpTable, name: str, call: Call) -> list[tuple[str | None, bool]]:
    op = table.python(name)
    assert op is not None, name
    return [(hit.effect.rule, hit.certain) for hit in op.effects_of(call) if hit.effect.rule]


def number(value: object) -> Argument:
    return Argument("number", value, str(value))


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("torch.Tensor.item", Call([TENSOR]), [("GS101", True)]),
        ("torch.nonzero", Call([TENSOR]), [("GS201", True)]),
        ("torch.nonzero_static", Call([TENSOR], {"size": number(4)}), []),
        ("torch.histc", Call([TENSOR, number(8)]), [("GS106", True)]),
        ("torch.Tensor.histc", Call([TENSOR, number(8), number(0), number(1)]), []),
        ("torch.histc", Call([TENSOR], {"min": number(-3), "max": number(3)}), []),
        ("torch.histc", Call([TENSOR], open=True), [("GS106", False), ("GS106", False)]),
        ("torch.bincount", Call([TENSOR], {"minlength": number(8)}), [("GS201", True)]),
        ("torch.repeat_interleave", Call([TENSOR, OTHER]), [("GS201", True)]),
        ("torch.repeat_interleave", Call([TENSOR, number(3)]), []),
        ("torch.repeat_interleave", Call([TENSOR, Argument()]), [("GS201", False)]),
        ("torch.repeat_interleave", Call([TENSOR, OTHER], {"output_size": number(64)}), []),
        ("torch.repeat_interleave", Call([TENSOR]), [("GS201", True)]),
        ("torch.nn.functional.one_hot", Call([TENSOR]), [("GS201", True)]),
        ("torch.nn.functional.one_hot", Call([TENSOR, number(64)]), []),
        ("torch.nn.functional.one_hot", Call([TENSOR], {"num_classes": number(-1)}), [("GS201", True)]),
        ("torch.nn.functional.one_hot", Call([TENSOR, Argument("number")]), [("GS201", False)]),
        ("torch.where", Call([TENSOR]), [("GS201", True)]),
        ("torch.where", Call([TENSOR, OTHER, number(0.0)]), []),
        ("torch.where", Call([TENSOR, OTHER, Argument("host-tensor")]), [("GS304", True)]),
        ("torch.equal", Call([TENSOR, OTHER]), [("GS106", True)]),
        ("torch.equal", Call([TENSOR, TENSOR]), []),
        ("torch.linalg.inv", Call([TENSOR]), [("GS106", True)]),
        ("torch.linalg.inv_ex", Call([TENSOR]), []),
        ("torch.multinomial", Call([TENSOR, number(1)]), []),
        ("torch.multinomial", Call([TENSOR, number(1)], {"generator": Argument("other")}), [("GS502", True)]),
        ("torch.nn.utils.clip_grad_norm_", Call([TENSOR, number(1.0)]), []),
        (
            "torch.nn.utils.clip_grad_norm_",
            Call([TENSOR, number(1.0)], {"error_if_nonfinite": Argument("bool", True)}),
            [("GS106", True)],
        ),
        ("torch.tensor", Call([number(3.0)], {"device": Argument("device")}), [("GS301", True)]),
        ("torch.tensor", Call([number(3.0)]), []),
        ("torch.tensor", Call([number(3.0)], {"device": Argument("host-device")}), []),
        ("torch.tensor", Call([Argument("tensors")]), [("GS101", True)]),
        ("torch.full", Call([Argument("sequence"), number(3.0)]), [("GS401", True)]),
        ("torch.full", Call([Argument("sequence"), TENSOR]), [("GS401", True), ("GS101", True)]),
        ("torch.ones", Call([number(4), TENSOR]), [("GS401", True), ("GS203", True)]),
        ("torch.Tensor.chunk", Call([TENSOR, TENSOR]), [("GS203", True)]),
        ("torch.Tensor.chunk", Call([TENSOR, Argument()]), []),
        ("torch.Tensor.roll", Call([TENSOR, TENSOR]), [("GS101", True)]),
        ("torch.nn.functional.pad", Call([TENSOR, Argument("tensors")]), [("GS203", True)]),
        ("torch.nn.functional.pad", Call([TENSOR, Argument("sequence")], {"value": TENSOR}), [("GS101", True)]),
        ("torch.Tensor.masked_fill_", Call([TENSOR, Argument("mask"), number(0.0)]), []),
        ("torch.Tensor.index_put_", Call([TENSOR, Argument("mask"), OTHER]), [("GS202", True)]),
        ("torch.Tensor.index_put_", Call([TENSOR, Argument("tensors"), OTHER]), []),
        ("torch.add", Call([TENSOR, OTHER], {"alpha": OTHER}), [("GS101", True)]),
        ("torch.add", Call([TENSOR, OTHER], {"alpha": Argument()}), []),
        ("torch.isin", Call([TENSOR, OTHER]), [("GS106", False)]),
        ("torch.cuda.synchronize", Call(), [("GS105", True)]),
        ("random.random", Call(), [("GS504", True)]),
    ],
)
def test_effects_depend_on_how_the_call_looks(
    table: OpTable, name: str, call: Call, expected: list[tuple[str, bool]]
) -> None:
    assert rules_of(table, name, call) == expected


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("isnan", Call([TENSOR]), Result("mask")),
        ("argmax", Call([TENSOR]), Result("reduction", "int")),
        ("argmax", Call([TENSOR, number(-1)]), Result("int")),
        ("sum", Call([TENSOR]), Result("reduction")),
        ("sum", Call([TENSOR], {"dim": number(0)}), Result("tensor")),
        ("sum", Call([TENSOR], {"axis": number(0)}), Result("tensor")),
        ("sum", Call([TENSOR], {"dim": Argument("none", None)}), Result("reduction")),
        ("any", Call([TENSOR]), Result("reduction", "mask")),
        ("max", Call([TENSOR]), Result("reduction", "same")),
        ("max", Call([TENSOR, number(0)]), Result("tuple", elements=("same", "int"))),
        ("max", Call([TENSOR, OTHER]), Result("tensor")),
        ("topk", Call([TENSOR, number(4)]), Result("tuple", elements=("same", "int"))),
        ("chunk", Call([TENSOR, number(2)]), Result("tuple", elements=("same",))),
        ("size", Call([TENSOR]), Result("shape")),
        ("size", Call([TENSOR, number(0)]), Result("host")),
        ("numel", Call([TENSOR]), Result("host")),
        ("add_", Call([TENSOR, OTHER]), Result("self")),
        ("to", Call([TENSOR, Argument("dtype", "bool")]), Result("mask")),
        ("new_zeros", Call([TENSOR, number(3)], {"dtype": Argument("dtype", "bool")}), Result("mask")),
        ("item", Call([TENSOR]), Result("host")),
    ],
)
def test_results_depend_on_how_the_call_looks(table: OpTable, name: str, call: Call, expected: Result) -> None:
    op = table.method(name)
    assert op is not None
    assert op.result_of(call) == expected


def test_an_op_says_whether_it_is_a_view_or_writes_in_place(table: OpTable) -> None:
    transpose, add, zeros = table.method("transpose"), table.method("add_"), table.python("torch.zeros")
    assert transpose is not None and transpose.view and not transpose.mutates
    assert add is not None and add.mutates == ("input",) and add.pointwise
    assert zeros is not None and zeros.placement == "argument"


def test_an_aten_op_is_found_by_overload_or_for_all_of_them(table: OpTable) -> None:
    nonzero = table.aten("aten::nonzero")
    assert nonzero is not None and nonzero is table.aten("aten::nonzero", "out") is table.python("torch.nonzero")
    assert table.knows_aten("aten::_foreach_sub", "Scalar")
    assert not table.knows_aten("aten::no_such_op")
    assert not table.knows_aten("aten::_foreach_sub", "NoSuchOverload")


def test_every_measured_entry_names_rows_that_were_measured(table: OpTable) -> None:
    rows = {name for path in measured_files() for name in measured(path)["entries"]}
    samples = (ROOT / "tests" / "data" / "op_samples.jsonl").read_text(encoding="utf-8").splitlines()
    rows |= {f"samples/{json.loads(line)['name']}" for line in samples}
    for op in table.ops():
        assert (op.basis == "measured") == bool(op.evidence), op.python
        assert set(op.evidence) <= rows, op.python


def test_the_rule_of_every_effect_matches_its_event(table: OpTable) -> None:
    """A misspelt `how` would give an event that no rule matches, and so there would be no finding."""
    rulebook = load_rulebook()
    for op in table.ops():
        for effect in op.effects:
            if effect.rule is not None:
                event = EVENT_OF_EFFECT.get(effect.kind, "AttrWrite")  # a host value counts if state keeps it
                rules = {rule.code for rule, _ in rulebook.matching(event, effect.how)}
                name = op.aten or op.python
                said = f"{name} in rules/ops/torch.yaml: {event} {effect.how!r} belongs to {sorted(rules) or 'no rule'}"
                assert effect.rule in rules, f"{said}, not to {effect.rule}"


@pytest.mark.parametrize(
    ("version", "spec", "inside"),
    [
        ("2.11.0+cu130", ">=2.6", True),
        ("2.11.0", ">=2.6,<2.11", False),
        ("2.6.0", "<=2.6", True),
        ("2.12.0a0+git123", ">=2.12", True),
        ("2.9.1", "==2.9.1", True),
        ("2.9.1", "!=2.9.1", False),
    ],
)
def test_version_ranges(version: str, spec: str, inside: bool) -> None:
    assert version_matches(version, spec) is inside


def test_a_malformed_version_range_is_refused() -> None:
    with pytest.raises(ValueError, match="not a version range"):
        version_matches("2.11", "about 2.6")


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[]", "its schema is not"), ('{"schema": "graphsafe/ops/9"}', "its schema is not")],
)
def test_a_malformed_table_is_one_line_that_names_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "torch.json").write_text(text, encoding="utf-8")
    with pytest.raises(OpTableError, match=message) as raised:
        OpTable(tmp_path)
    assert "torch.json" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"placement": "moon"}, "'moon' is not one of same, argument"),
        ({"result": "tensr"}, "'tensr' is not one of"),
        ({"effects": [{"kind": "waits", "rule": None}]}, "'how'"),
        ({"effects": [{"kind": "naps", "rule": None, "how": "op"}]}, "'naps' is not one of"),
        ({"effects": [{"kind": "waits", "rule": None, "how": "op", "when": {"kinds": {"x": ["tensr"]}}}]}, "'tensr'"),
    ],
)
def test_a_malformed_entry_is_one_line_that_names_it(tmp_path: Path, change: dict[str, object], message: str) -> None:
    row = {"aten": "aten::new", "overload": None, "python": [], "result": "tensor", "basis": "schema", **change}
    head = {"schema": "graphsafe/ops/1", "name": "torch-9.9", "measured": {}, "tags": {}}
    (tmp_path / "torch.json").write_text(json.dumps({**head, "ops": [row]}), encoding="utf-8")
    with pytest.raises(OpTableError, match=message) as raised:
        OpTable(tmp_path).aten("aten::new")
    assert "aten::new" in str(raised.value) and "\n" not in str(raised.value)


def test_the_page_about_the_op_table_names_every_field() -> None:
    page = (ROOT / "rules" / "README.md").read_text(encoding="utf-8")
    for key in (ENTRY_KEYS | EFFECT_KEYS) - {"aten", "overload", "python", "basis"}:
        assert f"`{key}`" in page, key


def test_sums_in_any_order_are_known_by_aten_name(table: OpTable) -> None:
    assert table.is_nondeterministic("aten::index_add_") and table.is_nondeterministic("aten::scatter_add")
    assert table.is_nondeterministic("aten::embedding_dense_backward")
    assert not table.is_nondeterministic("aten::add", "Tensor")
    assert not table.is_nondeterministic("aten::index_put", "hacked_twin")
    assert not table.is_nondeterministic("mylib::scatter")


MODE = "torch._higher_order_ops.cudagraph_conditional_nodes.CUDAGraphCaptureControlFlowOpDispatchMode"


@pytest.mark.parametrize(
    "name, inside, version, expected",
    [
        ("torch.cond", "", None, [("GS102", True)]),
        ("torch.cond", "", "2.14.1+cu130", [("GS102", True)]),
        ("torch.cond", MODE, None, [("GS102", False)]),
        ("torch.cond", MODE, "2.11.0", [("GS102", True)]),
        ("torch.cond", MODE, "2.12.1", []),
        ("torch.while_loop", MODE, "2.13.0", [("GS102", True)]),
        ("torch.while_loop", MODE, "2.14.1", []),
    ],
)
def test_an_effect_may_depend_on_the_version_and_on_contexts(
    table: OpTable, name: str, inside: str, version: str | None, expected: list[tuple[str, bool]]
) -> None:
    call = Call([TENSOR], inside=frozenset([inside]), torch=version)
    assert rules_of(table, name, call) == expected


def test_what_a_dispatch_mode_sees_leads_to_the_entry(table: OpTable) -> None:
    assert table.aten("aten::_to_sparse") is table.method("to_sparse")


def test_a_missing_table_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(OpTableError, match="No such file"):
        OpTable(tmp_path)


@pytest.mark.child
def test_the_committed_table_is_what_its_script_builds() -> None:
    torch = pytest.importorskip("torch")
    built_with = json.loads((ROOT / "rules" / "ops" / "aten-known.json").read_text(encoding="utf-8"))["torch"]
    if torch.__version__.split("+")[0] != built_with:
        pytest.skip(f"the table was built with torch {built_with}")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "build_op_table.py"), "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
