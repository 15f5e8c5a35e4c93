"""Build rules/ops/torch.json and rules/ops/aten-known.json from three sources.

rules/ops/torch.yaml, edited by hand; PyTorch's op schemas and tags (what an op returns, whether it is a view, writes
in place, draws random numbers, has an output whose shape depends on data); and what was measured on a GPU: snippets of
rules/ops/torch-X.Y.json, which the YAML names as evidence, and PyTorch's own test samples, which are evidence of their
op (`samples/add`) and must not wait where the table is silent (tests/data/op_samples.jsonl).

    python scripts/build_op_table.py           # write the files
    python scripts/build_op_table.py --check   # exit 1 where they differ from what would be written

Needs torch and PyYAML; the result depends on the torch version alone, which is written into the files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from op_snippets import measured, measured_files

from graphsafe.optable.rows import entry_of

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT / "rules" / "ops" / "torch.yaml"
SAMPLES = ROOT / "tests" / "data" / "op_samples.jsonl"
TABLE = ROOT / "rules" / "ops" / "torch.json"
NO_KERNEL = ROOT / "rules" / "ops" / "no-cuda-kernel-2.11.json"
KNOWN = ROOT / "rules" / "ops" / "aten-known.json"

NAMESPACES = {
    "torch": (torch, ""),
    "torch.Tensor": (torch.Tensor, ""),
    "torch.nn.functional": (torch.nn.functional, ""),
    "torch.linalg": (torch.linalg, "linalg_"),
    "torch.fft": (torch.fft, "fft_"),
    "torch.special": (torch.special, "special_"),
}
"Where Python callers find aten ops, and what the aten name has in front there."
TAG_EFFECTS = {
    "dynamic_output_shape": {"kind": "dynamic-shape", "rule": "GS201", "how": "op"},
    "data_dependent_output": {"kind": "reads-host", "rule": "GS101", "how": "method"},
    "nondeterministic_seeded": {"kind": "random", "rule": None, "how": "draw"},
}
DRAWS_IF = {"train", "training", "dropout", "dropout_p"}
"Arguments with which an op draws only in training, or only if some elements are to be dropped."
PRIVATE_GENERATOR = {"kind": "random", "rule": "GS502", "how": "private-generator", "when": {"given": ["generator"]}}
DTYPE_CASE = {"when": {"literals": {"dtype": ["bool", "uint8"]}}, "result": "mask"}
"PyTorch indexes with uint8 as with bool."
NUMBERS = {"number", "int", "float", "Optional[number]", "Optional[int]", "Optional[float]", "List[int]", "List[float]"}
"Schema types for which PyTorch's argument parser reads a 0-d tensor."
SIZES = "size sizes output_size split_size split_sizes sections chunks steps start end step pad window_length".split()
SIZES += ["row", "col", "num_samples", "num_classes"]
"Names of numbers that say how long or how many: sizes, bounds and counts."
PLAIN_FIELDS = ("placement", "mutates", "view", "pointwise", "valueless", "host_arguments", "host_results")
PLAIN_FIELDS += (
    "no_kernel",
    "checks_on_cpu",
    "sums_in_any_order",
    "inside",
    "ndim",
    "attribute",
    "tensor_hint",
    "copies_values",
)
TRUE_FIELDS = ("launches", "takes_tensor")
"Written where they are false."
FIELDS = ("params", "numbers", "sizes", "effects", "result", "cases", "evidence", *TRUE_FIELDS, *PLAIN_FIELDS)
"What a block of torch.yaml may set."

Row = dict[str, Any]


class FactError(Exception):
    pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is out of date")
    check = parser.parse_args().check
    try:
        files = {TABLE: table_text(), KNOWN: known_text()}
    except FactError as error:
        print(f"{FACTS.name}: {error}", file=sys.stderr)
        return 2
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is out of date: run scripts/build_op_table.py", file=sys.stderr)
        else:
            path.write_text(files[path], encoding="utf-8")
    return 1 if check and stale else 0


def table_text() -> str:
    runs = [measured(path) for path in measured_files()]
    rows = list(schema_rows())
    lay_facts_over(rows, {name for run in runs for name in run["entries"]})
    add_samples(rows, json_lines(SAMPLES))
    give_inplace_their_base(rows)
    add_missing_kernels(rows)
    head = {
        "schema": "graphsafe/ops/1",
        "name": f"torch-{plain_version(runs[-1])}",
        "measured": {"torch": plain_version(runs[-1]), "device": runs[-1]["device"]},
        "tags": {"torch": torch.__version__.split("+")[0]},
    }
    lines = [line_of(finished(row)) for row in sorted(rows, key=order) if worth_a_line(row)]
    return json.dumps(head)[:-1] + ', "ops": [\n' + ",\n".join(lines) + "\n]}\n"


def line_of(row: Row) -> str:
    """The line of an entry, which graphsafe has to be able to read."""
    line = json.dumps(row, separators=(",", ":"))
    try:
        entry_of(json.loads(line))
    except (KeyError, TypeError, ValueError) as error:
        raise FactError(f"{row['aten'] or row['python'][0]}: {error}") from None
    return line


def json_lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def known_text() -> str:
    overloads: dict[str, list[str]] = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            overloads[schema.name.removeprefix("aten::")].append(schema.overload_name)
    head = {"schema": "graphsafe/aten-known/1", "torch": torch.__version__.split("+")[0]}
    lines = [f"{json.dumps(name)}:{json.dumps(sorted(overloads[name]))}" for name in sorted(overloads)]
    return json.dumps(head)[:-1] + ', "ops": {\n' + ",\n".join(lines) + "\n}}\n"


def plain_version(run: Mapping[str, Any]) -> str:
    return str(run["torch"]).split("+")[0]


def schema_rows() -> Iterator[Row]:
    """One entry an aten op name, from its schemas and tags."""
    schemas: dict[str, list[Any]] = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::") and not is_out_variant(schema):
            schemas[schema.name.removeprefix("aten::")].append(schema)
    for name in sorted(schemas):
        yield schema_row(name, schemas[name])


def schema_row(name: str, schemas: list[Any]) -> Row:
    # Of several overloads the one with most positional parameters names them all, as far as one list can; those of
    # TorchScript for plain numbers have no say where others take tensors.
    usual = [s for s in schemas if "Dimname" not in str(s)] or schemas[:1]
    widest = max([s for s in usual if "Tensor" in str(s)] or usual, key=lambda s: len(positional(s)))
    tags = {tag for schema in schemas for tag in tags_of(schema)}
    effects = [dict(effect) for tag, effect in TAG_EFFECTS.items() if tag in tags]
    if any(argument.name in DRAWS_IF for schema in schemas for argument in schema.arguments):
        effects = [{**effect, "sometimes": True} if effect["how"] == "draw" else effect for effect in effects]
    if "nondeterministic_seeded" in tags and any("generator" in str(schema) for schema in schemas):
        effects.append(PRIVATE_GENERATOR)
    numbers = number_parameters(schemas)
    row: Row = {
        "aten": f"aten::{name}",
        "overload": None,
        "python": [f"{space}.{short}" for space, short in python_names(name)],
        "params": ["input" if p == "self" else "dim|axis" if p == "dim" else p for p in positional(widest)],
        "numbers": numbers,
        "sizes": [name for name in numbers if name in SIZES],
        "effects": effects,
        "result": result_of(widest),
        "mutates": [a.name for a in widest.arguments if a.alias_info is not None and a.alias_info.is_write],
        "view": is_view(widest),
        "pointwise": "pointwise" in tags,
        "takes_tensor": takes_tensor(schemas),
        "basis": "tag" if effects else "schema",
    }
    if row["mutates"] == ["self"]:
        row["mutates"] = ["input"]
        row["result"] = "self"
    options = {a.name for schema in schemas for a in schema.arguments}
    if "device" in options and not any(str(a.type) == "Tensor" for a in widest.arguments):
        row["placement"] = "argument"
    if "dtype" in options and row["result"] == "tensor":
        row["cases"] = [DTYPE_CASE]
    return row


def takes_tensor(schemas: list[Any]) -> bool:
    """Whether the first argument is a tensor. What makes tensors of numbers (`linspace`) may take 0-d ones."""
    first = [str(schema.arguments[0].type) for schema in schemas if schema.arguments]
    makes = any(argument.name == "pin_memory" for schema in schemas for argument in schema.arguments)
    return any("Tensor" in kind for kind in first) and not (makes and "number" in first)


def number_parameters(schemas: list[Any]) -> list[str]:
    """Parameters that are numbers in every overload, by name and, where positional, by position."""
    types: dict[str, set[str]] = defaultdict(set)
    types_at: dict[int, set[str]] = defaultdict(set)
    for schema in schemas:
        for index, argument in enumerate(schema.arguments):
            types[argument.name].add(str(argument.type))
            if not argument.kwarg_only:
                types_at[index].add(str(argument.type))
    keyword_only = {a.name for schema in schemas for a in schema.arguments if a.kwarg_only}
    numbers = []
    for name, found in types.items():
        positions = {i for schema in schemas for i, a in enumerate(schema.arguments) if a.name == name}
        elsewhere = set() if name in keyword_only else {kind for i in positions for kind in types_at[i]}
        if name not in ("self", "dtype", "layout") and found | elsewhere <= NUMBERS:
            numbers.append(name)
    return sorted(numbers)


def is_out_variant(schema: Any) -> bool:
    return any(a.kwarg_only and a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


def positional(schema: Any) -> list[str]:
    return [argument.name for argument in schema.arguments if not argument.kwarg_only]


def tags_of(schema: Any) -> set[str]:
    try:
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
        return {tag.name for tag in getattr(packet, schema.overload_name or "default").tags}
    except AttributeError:  # a TorchScript builtin that no dispatcher knows
        return set()


def python_names(name: str) -> Iterator[tuple[str, str]]:
    for space, (module, prefix) in NAMESPACES.items():
        short = name.removeprefix(prefix)
        if name.startswith(prefix) and not short.startswith("_") and not isinstance(getattr(module, short, type), type):
            yield space, short


def result_of(schema: Any) -> Any:
    kinds = [
        "tensor" if kind == "Tensor" else "many" if kind == "List[Tensor]" else "host"
        for kind in (str(value.type) for value in schema.returns)
    ]
    if kinds == ["many"]:
        return {"kind": "tuple", "elements": ["tensor"]}
    if len(kinds) > 1:
        return {"kind": "tuple", "elements": ["tensor" if kind == "tensor" else "host" for kind in kinds]}
    return kinds[0] if kinds else "none"


def is_view(schema: Any) -> bool:
    return len(schema.returns) > 0 and all(
        value.alias_info is not None and not value.alias_info.is_write for value in schema.returns
    )


def lay_facts_over(rows: list[Row], measured: set[str]) -> None:
    by_aten = {row["aten"].removeprefix("aten::"): row for row in rows}
    by_python = {name: row for row in rows for name in row["python"]}
    for block in yaml.safe_load(FACTS.read_text(encoding="utf-8")):
        unknown = set(block) - {"ops", *FIELDS}
        if unknown:
            raise FactError(f"unknown field {sorted(unknown)[0]!r}")
        missing = [name for name in block.get("evidence", ()) if name not in measured]
        if missing:
            raise FactError(
                f"no measured row is named {missing[0]!r}: measure it (scripts/measure_ops.py), or leave `evidence` out"
            )
        for name in block["ops"]:
            row = own_row(name, rows, by_python) if "." in name else by_aten.get(name)
            if row is None:
                hint = "a Python name has its module, as in torch.where"
                raise FactError(f"torch {torch.__version__} has no aten op {name!r}; {hint}")
            lay_over(row, block)


def own_row(name: str, rows: list[Row], by_python: dict[str, Row]) -> Row:
    """The entry of one Python name, taken out of the entry that it shares with others."""
    check_exists(name)
    row = by_python.get(name)
    if row is not None and row["python"] == [name]:
        return row
    own: Row = {"aten": None, "overload": None, "params": [], "effects": [], "result": "tensor", "basis": "schema"}
    if row is not None:
        row["python"].remove(name)
        own = {**row, "aten": None}
    own["python"] = [name]
    rows.append(own)
    by_python[name] = own
    return own


def check_exists(name: str) -> None:
    """A misspelt name of torch's would never match anything and never be noticed."""
    if not name.startswith("torch."):
        return
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None and part not in ("grad_fn", "names"):
            raise FactError(f"torch {torch.__version__} has no {name!r}")


def lay_over(row: Row, block: Mapping[str, Any]) -> None:
    for key in FIELDS:
        if key in block and key != "evidence":
            row[key] = block[key]
            row.setdefault("by_hand", set()).add(key)
    if "evidence" in block:
        row["evidence"] = [
            *row.get("evidence", ()),
            *(e for e in block["evidence"] if e not in row.get("evidence", ())),
        ]
    if row.get("evidence"):
        row["basis"] = "measured"
    elif "effects" in block or "sums_in_any_order" in block:
        row["basis"] = "documented"


def add_samples(rows: list[Row], samples: list[Row]) -> None:
    by_aten = {row["aten"].removeprefix("aten::"): row for row in rows if row["aten"]}
    by_python = {name: row for row in rows for name in row["python"]}
    for sample in samples:
        # An aten op is sampled through its Python name; where torch.yaml took that out of the entry, it is what ran.
        row = by_python.get(f"torch.{sample['name']}") or by_aten.get(sample["aten"])
        if row is None or sample["name"].startswith("__"):
            continue
        if sample["failed"] and not any(effect["rule"] for effect in row["effects"]):
            raise FactError(f"samples of {sample['name']} wait or fail to be captured, and the table is silent")
        name = f"samples/{sample['name']}"
        row["evidence"] = [*row.get("evidence", ()), *([] if name in row.get("evidence", ()) else [name])]
        row["basis"] = "measured"


def give_inplace_their_base(rows: list[Row]) -> None:
    """`masked_fill_` waits where `masked_fill` does; but writing in place allocates nothing."""
    by_aten = {row["aten"]: row for row in rows if row["aten"] is not None}
    for row in rows:
        base = by_aten.get((row["aten"] or "").removesuffix("_"))
        if base is None or not row["aten"].endswith("_") or "effects" in row.get("by_hand", ()):
            continue
        if base["params"][:1] != ["input"]:  # `normal_` fills a tensor, `normal` makes one
            continue
        row["effects"] = [effect for effect in base["effects"] if effect["kind"] != "allocates"]
        row["sums_in_any_order"] = base.get("sums_in_any_order", False)
        row["params"] = base["params"]
        if row["effects"] and row["basis"] != "measured":
            row["basis"] = base["basis"]
            row["evidence"] = base.get("evidence", [])


def add_missing_kernels(rows: list[Row]) -> None:
    """Name the dtypes that CUDA has no kernel for, as scripts/measure_dtypes.py found them."""
    missing = json.loads(NO_KERNEL.read_text(encoding="utf-8"))["no_kernel"]
    for row in rows:
        if row["aten"] in missing:
            row["no_kernel"] = missing[row["aten"]]


def worth_a_line(row: Row) -> bool:
    """An op that no Python caller names and of which nothing is said is in aten-known.json only."""
    return bool(row["python"] or row["effects"] or row.get("by_hand") or row.get("no_kernel"))


def finished(row: Row) -> Row:
    """The entry as written: fields that say nothing are left out."""
    cases = list(row.get("cases", ()))
    result = row["result"]
    if isinstance(result, str) and result.startswith("reduction") and "cases" not in row.get("by_hand", ()):
        cases = [{"when": {"given": ["dim"]}, "result": result.partition(" of ")[2] or "tensor"}]
    if result in ("float", "int", "same") and DTYPE_CASE not in cases and row.get("cases") == [DTYPE_CASE]:
        cases.append(DTYPE_CASE)
    done = {key: row[key] for key in ("aten", "overload", "python")}
    done["python"] = sorted(row["python"])
    read = [] if row["result"] in ("host", "shape", "none") else numbers_left(row)
    sizes = [name for name in read if name in row.get("sizes", ())]
    numbers = [name for name in read if name not in sizes]
    if row["params"] and (row["effects"] or cases or read):
        # A dispatch mode knows arguments by the schema's names, where the first one is `self`.
        done["params"] = ["input|self" if name == "input" and row["aten"] else name for name in row["params"]]
    if numbers:
        done["numbers"] = numbers
    if sizes:
        done["sizes"] = sizes
    if row["effects"]:
        done["effects"] = row["effects"]
    done["result"] = result
    if cases:
        done["cases"] = cases
    for key in PLAIN_FIELDS:
        if row.get(key):
            done[key] = row[key]
    for key in TRUE_FIELDS:
        if not row.get(key, True):
            done[key] = False
    done["basis"] = row["basis"]
    if row.get("evidence"):
        done["evidence"] = row["evidence"]
    return done


def numbers_left(row: Row) -> list[str]:
    """The numbers, sizes included, without those whose reading torch.yaml describes better, and those that it gives
    another name."""
    told = {param for effect in row["effects"] for param in effect.get("when", {}).get("kinds", {})}
    shared = {name for param in row["params"] if "|" in param for name in param.split("|")} - {"dim", "axis"}
    return sorted({*row.get("numbers", ()), *row.get("sizes", ())} - told - shared)


def order(row: Row) -> tuple[bool, str, list[str]]:
    return (row["aten"] is None, row["aten"] or "", row["python"])


if __name__ == "__main__":
    sys.exit(main())
