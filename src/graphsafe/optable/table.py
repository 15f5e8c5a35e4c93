"""The op table. The scan looks up entries by their Python names. The step probe and the simulated device look them up
by their aten names.

Loading takes milliseconds: the file is only indexed, and an entry is built when it is first needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, Final, get_args

from graphsafe.optable.entries import Op, TensorHint
from graphsafe.optable.rows import entry_of

OPS_SCHEMA: Final = "graphsafe/ops/1"
KNOWN_SCHEMA: Final = "graphsafe/aten-known/1"


_TENSOR_PARAMS = frozenset("index mask condition src source mat2 batch2 tensor1 tensor2 vec".split())
"Parameters of operations that accept only tensors, unless an entry lists them under `numbers`."


class OpTableError(Exception):
    """Raised if the op table's file is missing or invalid. The message is one line that names the file."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class OpTable:
    """The loaded table. Reports show its `name`."""

    def __init__(self, folder: Path) -> None:
        """Load the table in `folder` (rules/ops). Raises OpTableError."""
        self._path = folder / "torch.json"
        data = _read(self._path, OPS_SCHEMA)
        self.name: str = data["name"]
        self.measured: Mapping[str, str] = data["measured"]
        self.tags: Mapping[str, str] = data["tags"]
        self._rows: list[Mapping[str, Any]] = data["ops"]
        self._built: dict[int, Op] = {}
        self._by_python: dict[str, int] = {}
        self._by_aten: dict[tuple[str, str | None], int] = {}
        for index, row in enumerate(self._rows):
            for name in row["python"]:
                self._by_python[name] = index
            if row["aten"] is not None:
                self._by_aten.setdefault((row["aten"], row["overload"]), index)
        for index, row in enumerate(self._rows):
            for name in row.get("inside", ()):
                self._by_aten[f"aten::{name}", None] = index

    def python(self, name: str) -> Op | None:
        """Return the entry of a fully qualified Python name (`torch.nonzero`, `torch.Tensor.nonzero`), or None."""
        return self._op(self._by_python.get(name))

    def method(self, name: str) -> Op | None:
        """Return the entry of a tensor's method or attribute (`nonzero`, `shape`), or None."""
        return self.python(f"torch.Tensor.{name}")

    def tensor_hints(self, of: TensorHint) -> Set[str]:
        """Return names of methods and attributes. A value counts as a tensor if code uses one of these names on it."""
        return self._hints[of]

    @cached_property
    def _hints(self) -> Mapping[str, Set[str]]:
        hints: dict[str, set[str]] = {}
        for row in self._rows:
            methods = {name.rpartition(".")[2] for name in row["python"] if name.rpartition(".")[0] == "torch.Tensor"}
            hints.setdefault(row.get("tensor_hint", ""), set()).update(methods)
        degrees = get_args(TensorHint)
        return {
            degree: set().union(*(hints.get(one, ()) for one in degrees[: at + 1])) for at, degree in enumerate(degrees)
        }

    def takes_tensor(self, name: str) -> bool:
        """Return whether the first argument of a known Python function is a tensor."""
        index = self._by_python.get(name)
        return index is not None and bool(self._rows[index].get("takes_tensor", True))

    def takes_tensor_at(self, name: str, position: int) -> bool:
        """Return whether this argument of a function can only be a tensor. The first argument of a method is its
        receiver."""
        index = self._by_python.get(name)
        row = self._rows[index] if index is not None else {}
        param = (row.get("params", ())[position : position + 1] or [""])[0]
        return param in _TENSOR_PARAMS and param not in row.get("numbers", ())

    def aten(self, name: str, overload: str = "") -> Op | None:
        """Return the entry of an aten op (`aten::nonzero`) for this overload. If there is none, return the entry for
        all overloads, or None."""
        index = self._by_aten.get((name, overload))
        return self._op(self._by_aten.get((name, None)) if index is None else index)

    def knows_aten(self, name: str, overload: str = "") -> bool:
        """Return whether this op exists in the torch version that `tags` names. A known op without an entry has no
        effect."""
        return self.aten(name, overload) is not None or overload in self._known.get(name.removeprefix("aten::"), ())

    def is_nondeterministic(self, name: str, overload: str = "") -> bool:
        """Return whether an aten op sums floats in varying order on CUDA. If so, equal runs differ in their last
        bits."""
        op = self.aten(name, overload)
        return op is not None and op.sums_in_any_order

    def ops(self) -> Sequence[Op]:
        return tuple(op for index in range(len(self._rows)) if (op := self._op(index)) is not None)

    @cached_property
    def _known(self) -> Mapping[str, Sequence[str]]:
        known: Mapping[str, Sequence[str]] = _read(self._path.with_name("aten-known.json"), KNOWN_SCHEMA)["ops"]
        return known

    def _op(self, index: int | None) -> Op | None:
        if index is None:
            return None
        if index not in self._built:
            row = self._rows[index]
            try:
                self._built[index] = entry_of(row)
            except (KeyError, TypeError, ValueError) as error:
                raise OpTableError(self._path, f"{row.get('aten') or row.get('python')}: {error}") from error
        return self._built[index]


def _read(path: Path, schema: str) -> Mapping[str, Any]:
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OpTableError(path, error.strerror or "cannot be read") from error
    except ValueError as error:
        raise OpTableError(path, f"not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != schema:
        raise OpTableError(path, f"not an op table: its schema is not {schema}")
    return data
