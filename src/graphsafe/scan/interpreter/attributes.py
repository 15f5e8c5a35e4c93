"""What the attributes of a class's instances hold: constructors and the other methods that assign them, read cold."""

from __future__ import annotations

import ast
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import Call
from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.naming import MASK_NAME, placed, where_of
from graphsafe.scan.domain.values import UNKNOWN, Instance, NoneValue, Number, Tensor, Union, Unknown, Value, as_tensor
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.call_frame import Frame

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.engine import Engine

CONSTRUCTORS = ("__init__", "__post_init__", "setup", "_init", "__new__")
FACTORY_DECORATORS = frozenset(("staticmethod", "classmethod"))
MAX_WRITERS = 6
CONSTRUCTED = "__init__"
Key = tuple[str, str]
"Class and attribute."
MODULE_SUFFIXES = ("Module", "PreTrainedModel", "LightningModule", "ModelMixin")


class AttributeTables:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.now: MutableMapping[Key, Value] = {}
        self.initial_values: MutableMapping[Key, Value] = {}
        "What constructors leave."
        self.expected: MutableMapping[Key, Value] = {}
        "What attributes that are None at first will hold, by their annotation: tensors."
        self.done: set[tuple[str, str]] = set()
        "Class and method, as far as they are read for what they assign; CONSTRUCTED for all that constructs."
        self.under_construction: list[str] = []
        self._modules: dict[str, bool] = {}
        self._plain: dict[str, bool] = {}
        self._keys: dict[str, dict[str, str]] = {}
        self._writing: dict[str, dict[str, Sequence[str]]] = {}
        "Class and attribute -> the methods that assign it, constructors aside."
        self._class_values: dict[str, dict[str, Value | None]] = {}

    def record(self, ref: str, name: str, value: Value) -> None:
        """A cold assignment to `self.name` of an instance of class `ref`."""
        key = (ref, name)
        is_constructing = ref in self.under_construction
        known, first_known = self.now.get(key), self.initial_values.get(key)
        now = value if known is None or (is_constructing and type(known) is Unknown) else join(known, value)
        self.now[key] = now
        if is_constructing:
            self.initial_values[key] = join(first_known, value) if first_known is not None else value

    def expect(self, ref: str, name: str, value: Value) -> None:
        """An attribute that is None at first will hold such a value."""
        key = (ref, name)
        if as_tensor(value)[0] is not None:
            self.expected[key] = value
        else:
            self.now[key] = join(self.now.get(key, value), value)

    def of_instance(self, ref: str, name: str) -> Value | None:
        """The value of an attribute that is no method; None where nothing in the project defines it."""
        self._construct(ref)
        writing = self._writing.setdefault(ref, {})
        if name not in writing:
            writing[name] = self._writers(ref, name)
        writers = writing[name]
        for writer in writers[:MAX_WRITERS]:
            self._run(ref, writer)
        value, expected = self.now.get((ref, name)), self.expected.get((ref, name))
        if expected is not None:
            value = expected if value is None else _filled(value, expected)
        of_class = self.of_class(ref, name)
        if value is None:
            return (
                of_class
                if type(of_class) is not Unknown or self._declared(ref, name)
                else None
                if not writers
                else UNKNOWN
            )
        if type(value) is Unknown and type(of_class) is not Unknown:
            return of_class
        if type(value) is NoneValue and type(of_class) is not Unknown:
            return join(value, of_class)
        return value

    def initial(self, ref: str, name: str) -> Value | None:
        """What the constructor leaves in an attribute, or the class body, before any other method runs."""
        self._construct(ref)
        value = self.initial_values.get((ref, name))
        if value is None:
            of_class = self.of_class(ref, name)
            return None if type(of_class) is Unknown else of_class
        return value

    def key(self, ref: str, name: str) -> str:
        """`path::Class.name`, of the class furthest up that assigns it: one key whatever subclass is read."""
        keys = self._keys.setdefault(ref, {})
        if name not in keys:
            owner = ref
            for base in self._engine.project.mro(ref):
                if "::" in base:
                    facts = self._engine.project.class_facts(base)
                    if facts is not None and (name in facts.writers or name in facts.fields):
                        owner = base
            keys[name] = intern(f"{owner}.{name}")
        return keys[name]

    def is_module(self, ref: str) -> bool:
        """Whether instances are torch modules: `forward` runs when they are called, buffers move with them."""
        if ref not in self._modules:
            self._modules[ref] = any(map(is_module_base, self._engine.project.mro(ref)))
        return self._modules[ref]

    def of_class(self, ref: str, name: str) -> Value:
        """What the class body binds to a name, through the bases."""
        values = self._class_values.setdefault(ref, {})
        if name in values:
            return values[name] or UNKNOWN
        values[name] = None
        value = self._class_body(ref, name)
        values[name] = value
        return value

    def _class_body(self, ref: str, name: str) -> Value:
        from graphsafe.scan.interpreter.expressions import evaluate

        project = self._engine.project
        for base in project.mro(ref):
            facts = project.class_facts(base) if "::" in base else None
            if facts is None or name not in facts.fields:
                continue
            path = base.partition("::")[0]
            file = project.index(path)
            statement = project.statement(path, *facts.fields[name])
            if file is None or statement is None:
                return UNKNOWN
            frame = Frame(file, f"{path}::{facts.name}", {}, hot=False, depth=2)
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.AnnAssign):
                declared = placed(annotated(self._engine, file, statement.annotation), name, False, "any")
                if value is None or (type(declared) is not Unknown and type(declared) is not Number):
                    return declared
                if isinstance(value, ast.Constant) and value.value is None:
                    # What `plan: Plan | None = None` holds once somebody has filled it.
                    return UNKNOWN
            if value is None:
                return UNKNOWN
            result = evaluate(self._engine, frame, value)
            if type(result) is Number:
                return replace(result, soft=result.soft or "attribute")
            return result
        return UNKNOWN

    def _declared(self, ref: str, name: str) -> bool:
        project = self._engine.project
        return any(
            name in facts.fields
            for base in project.mro(ref)
            if "::" in base and (facts := project.class_facts(base)) is not None
        )

    def _writers(self, ref: str, name: str) -> Sequence[str]:
        found: list[str] = []
        project = self._engine.project
        for base in project.mro(ref):
            facts = project.class_facts(base) if "::" in base else None
            if facts is not None:
                for method in facts.writers.get(name, ()):
                    if method not in CONSTRUCTORS:
                        found.append(f"{base.partition('::')[0]}::{facts.name}.{method}")
        return tuple(found)

    def _construct(self, ref: str) -> None:
        if (ref, CONSTRUCTED) in self.done:
            return
        self.done.add((ref, CONSTRUCTED))
        project = self._engine.project
        self.under_construction.append(ref)
        try:
            for name in CONSTRUCTORS:
                method = project.find_method(ref, name)
                if method is not None:
                    self._read(ref, method)
            for method in self._factories(ref):
                self._read(ref, method)
        finally:
            self.under_construction.pop()

    def has_plain_fields(self, ref: str) -> bool:
        """Whether the keywords of a call of the class are its fields: it has no constructor, or one for any keyword."""
        if ref not in self._plain:
            project = self._engine.project
            method = project.find_method(ref, "__init__")
            node = project.function_node(method) if method is not None else None
            self._plain[ref] = method is None or (node is not None and node.args.kwarg is not None)
        return self._plain[ref]

    def _factories(self, ref: str) -> list[str]:
        """The methods by which a class of plain fields makes its instances."""
        project = self._engine.project
        facts = project.class_facts(ref)
        if facts is None or not facts.fields or not self.has_plain_fields(ref):
            return []
        path = ref.partition("::")[0]
        methods = [f"{path}::{name}" for name in facts.methods.values()]
        made = [(method, project.function_facts(method)) for method in methods]
        return [m for m, f in made if f is not None and not FACTORY_DECORATORS.isdisjoint(f.decorators)][:MAX_WRITERS]

    def constructed(self, ref: str, values: Mapping[str, Value]) -> None:
        """Note the tensors and numbers that a call of a class of plain fields puts into them."""
        for name, value in values.items():
            of_class = self.of_class(ref, name)
            declared, _ = as_tensor(of_class)
            if type(of_class) is Number:
                self.record(ref, name, value)
            elif declared is not None:
                given = as_tensor(value)[0] or declared
                self.record(ref, name, replace(declared, where=given.where, dtype=given.dtype or declared.dtype))

    def _run(self, ref: str, method: str) -> None:
        if (ref, method) not in self.done:
            self.done.add((ref, method))
            self._read(ref, method)

    def _read(self, ref: str, method: str) -> None:
        engine = self._engine
        away = 0 if engine.horizon.holds(method) else 1
        engine.read(Call(method, Instance(ref)), away)


def is_module_base(base: str) -> bool:
    """Whether an element of a class's order of bases is a library's class of torch modules."""
    return "::" not in base and (base.startswith(("torch.nn.", "nn.")) or base.endswith(MODULE_SUFFIXES))


def _filled(value: Value, expected: Value) -> Value:
    """What an attribute holds that is declared to hold something: where the tensor is, those know best who make it."""
    made = as_tensor(value)[0]
    return value if made is not None and made.where != "any" else join(value, expected)


MODULE_ATTRIBUTES: dict[str, Value] = {
    "training": Number(type="bool", soft="attribute"),
}


def named_attribute(value: Value, text: str, key: str) -> Value:
    """An attribute's value as an expression sees it: with its name, its identity, and as state of the host."""
    if isinstance(value, Tensor):
        name = text.rpartition(".")[2]
        where = where_of(name, value.where)
        dtype = value.dtype
        if dtype is None and MASK_NAME.search(name) and name != "attention_mask":
            dtype = "bool"
        return replace(value, name=text, attr=key, fresh=False, where=where, dtype=dtype)
    if isinstance(value, Number):
        return replace(value, state=key, soft=value.soft or "attribute")
    if isinstance(value, Union):
        options = [named_attribute(option, text, key) for option in value.options]
        result = options[0]
        for option in options[1:]:
            result = join(result, option)
        return result
    return value
