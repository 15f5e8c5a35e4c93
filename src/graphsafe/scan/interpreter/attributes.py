"""What attributes of instances hold: the join of what constructors and other methods assign."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import TOP_LEVEL, Call
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import held_in
from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.naming import MASK_NAME, placed, where_of
from graphsafe.scan.domain.summary import Effects, Summary
from graphsafe.scan.domain.uses import Memo
from graphsafe.scan.domain.values import (
    UNKNOWN,
    Dict,
    Instance,
    NoneValue,
    Number,
    Tensor,
    Union,
    Unknown,
    Value,
    as_tensor,
    holds_device,
)
from graphsafe.scan.domain.values import Sequence as SequenceValue
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.constructed import Constructed, UnderConstruction, all_constructed
from graphsafe.scan.symbols.declared_fields import declared_in
from graphsafe.scan.symbols.project import is_module_base

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.engine import Engine

CONSTRUCTORS = ("__init__", "__post_init__", "setup", "_init", "__new__")
FACTORY_DECORATORS = frozenset(("staticmethod", "classmethod"))
MAX_WRITERS = 6
Key = tuple[str, str]
"Class and attribute."
Marked = dict[str, tuple[Value, Value]]
"Attribute -> a container, and the same as state of that name."


class AttributeTables:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.constructions: Mapping[Key, Sequence[Value]] = {}
        "What calls of classes of plain fields put into these, as far as that is known."
        self._under_construction: dict[str, Effects] = {}
        self.marked: Marked = {}
        self._modules: dict[str, bool] = {}
        self._plain: Memo[str, bool] = {}
        self._keys: dict[str, dict[str, str]] = {}
        self._writing: dict[Key, Sequence[str]] = {}
        "The methods that assign an attribute, constructors aside."

    # what cold code does

    def record(self, ref: str, name: str, value: Value) -> None:
        """A cold assignment to `self.name` of an instance of class `ref`."""
        _add(self._engine.effects.written, (ref, name), value)

    def expect(self, ref: str, name: str, value: Value) -> None:
        """An attribute that is None at first will hold such a value."""
        _add(self._engine.effects.expected, (ref, name), value)

    def include(self, summary: Summary, owner: str = "", ref: str = "") -> None:
        """Add the assignments of a called function's summary, those to `owner` as assignments to `ref`."""
        for (of, name), values in summary.written.items():
            for value in values:
                self.record(ref if of == owner else of, name, value)
        for (of, name), values in summary.expected.items():
            for value in values:
                self.expect(ref if of == owner else of, name, value)
        for key, values in summary.constructed.items():
            for value in values:
                _add(self._engine.effects.constructed, key, value)

    def constructed(self, ref: str, values: Mapping[str, Value]) -> None:
        """Note the tensors and numbers that a call of a class of plain fields puts into them."""
        for name, value in values.items():
            of_class = self.of_class(ref, name)
            declared, _ = as_tensor(of_class)
            if type(of_class) is Number:
                _add(self._engine.effects.constructed, (ref, name), value)
            elif declared is not None:
                given = as_tensor(value)[0] or declared
                where = declared.where if given.where == "any" else given.where
                value = replace(declared, where=where, dtype=given.dtype or declared.dtype)
                _add(self._engine.effects.constructed, (ref, name), value)

    def passed(self, ref: str, values: Mapping[str, Value]) -> None:
        """Note the tensors that a constructor of a class was given for its attributes."""
        for name, value in values.items():
            # Where the constructor itself shows what it is, nothing is in doubt.
            if type(value) is Tensor and type(self._constructed(ref).value(name)) is Unknown:
                kept = Tensor(value.where, value.dtype, value.ndim, value.pinned, certain=value.certain)
                _add(self._engine.effects.constructed, (ref, name), kept)

    # what attributes hold

    def of_instance(self, ref: str, name: str, level: int = TOP_LEVEL) -> Value | None:
        """The value of an attribute that is no method; None where nothing in the project defines it.

        `level`: how many methods that assign attributes are still read for it, one for the sake of the other.
        """
        if ref in self._under_construction:
            # What constructors have assigned so far, each time they ask: nothing to keep.
            return self.work_out(ref, name, level)
        return self._engine.queries.ask(
            ("attribute", ref, name, level), lambda: self.work_out(ref, name, level), lambda: None, level
        )

    def work_out(self, ref: str, name: str, level: int) -> Value | None:
        """The same, computed."""
        made = self._constructed(ref)
        value, promised = made.value(name), made.promised(name)
        writers = self._writers(ref, name)
        for writer in writers[:MAX_WRITERS] if level else ():
            summary = self._read(ref, writer, level - 1)
            if summary is not None:
                for written in summary.written.get((ref, name), ()):
                    value = written if value is None else join(value, written)
        for given in _telling(self._given(ref, name)):
            # What a constructor is given, it does not know itself.
            value = given if value is None or type(value) is Unknown else join(value, given)
        if promised is not None:
            if as_tensor(promised)[0] is None:
                value = promised if value is None else join(value, promised)
            else:
                value = promised if value is None else _filled(value, promised)
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
        if type(value) is Unknown and type(made.value(name)) is Number:
            return replace(value, state=self.key(ref, name))
        by_class = type(of_class) is NoneValue and made.value(name) is None
        if by_class or (type(value) is NoneValue and type(of_class) is not Unknown):
            return join(value, of_class)
        return value

    def _given(self, ref: str, name: str) -> Sequence[Value]:
        """What calls of a class of plain fields put into one, as far as that is known."""
        self._engine.project.files.uses.note("constructions", ref)
        return self.constructions.get((ref, name), ())

    def initial(self, ref: str, name: str) -> Value | None:
        """What the constructor leaves in an attribute, or the class body, before any other method runs."""
        value = self._constructed(ref).value(name)
        if value is None:
            of_class = self.of_class(ref, name)
            return None if type(of_class) is Unknown else of_class
        return value

    def _constructed(self, ref: str) -> Constructed | UnderConstruction:
        return self._engine.queries.ask(
            ("constructed", ref), lambda: self._construct(ref), lambda: self._constructed_so_far(ref)
        )

    def _construct(self, ref: str) -> Constructed | UnderConstruction:
        engine = self._engine
        methods = [engine.project.find_method(ref, name) for name in CONSTRUCTORS]
        outer, engine.effects = engine.effects, Effects()
        self._under_construction[ref] = engine.effects
        try:
            for method in (*methods, *self._factories(ref)):
                if method is not None:
                    engine.read(Call(method, Instance(ref), level=0), out_of_scope=self._out_of_scope(method))
            return all_constructed(ref, engine.effects)
        finally:
            engine.effects = outer
            del self._under_construction[ref]

    def _constructed_so_far(self, ref: str) -> UnderConstruction:
        """While constructors are being read: what they have done, and the functions that they are calling now."""
        calling: list[Effects] = []
        effects: Effects | None = self._engine.effects
        begun = self._under_construction[ref]
        while effects is not None and effects is not begun:
            calling.append(effects)
            effects = effects.outer
        return UnderConstruction(ref, [begun, *reversed(calling)] if effects is begun else [begun])

    def _read(self, ref: str, method: str, level: int) -> Summary | None:
        """A method that assigns attributes."""
        engine = self._engine
        outer, engine.effects = engine.effects, Effects()
        try:
            return engine.summary(Call(method, Instance(ref), level=level), self._out_of_scope(method))
        finally:
            engine.effects = outer

    def _out_of_scope(self, method: str) -> int:
        return 0 if self._engine.budget.holds(method) else 1

    def key(self, ref: str, name: str) -> str:
        """`path::Class.name`, of the class furthest up that assigns it: one key whatever subclass is read."""
        # Asked for each time, here and below, so that it is noted who rests on it; all else follows from it.
        order = self._engine.project.mro(ref)
        keys = self._keys.setdefault(ref, {})
        if name not in keys:
            owner = ref
            for base in order:
                if "::" in base:
                    facts = self._engine.project.class_facts(base)
                    if facts is not None and (name in facts.writers or name in facts.fields):
                        owner = base
            keys[name] = intern(f"{owner}.{name}")
        return keys[name]

    def is_module(self, ref: str) -> bool:
        """Whether instances are torch modules: `forward` runs when they are called, buffers move with them."""
        order = self._engine.project.mro(ref)
        if ref not in self._modules:
            self._modules[ref] = any(map(is_module_base, order))
        return self._modules[ref]

    def of_class(self, ref: str, name: str) -> Value:
        """What the class body binds to a name, through the bases."""
        return self._engine.queries.ask(("class", ref, name), lambda: self._class_body(ref, name), lambda: UNKNOWN)

    def _class_body(self, ref: str, name: str) -> Value:
        project = self._engine.project
        for base in project.mro(ref):
            facts = project.class_facts(base) if "::" in base else None
            if facts is None or name not in facts.fields:
                continue
            path = base.partition("::")[0]
            file = project.file(path)
            statement = project.statement(path, *facts.fields[name])
            if file is None or statement is None:
                return UNKNOWN
            frame = Frame(file, f"{path}::{facts.name}", {}, hot=False, depth=2, level=0)
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.AnnAssign):
                declared = annotated(self._engine, file, statement.annotation)
                on_host = holds_device(declared) and name in declared_in(project, path).on_host
                declared = placed(declared, name, False, "host" if on_host else "any")
                if value is None or (type(declared) is not Unknown and type(declared) is not Number):
                    return declared
                if isinstance(value, ast.Constant) and value.value is None:
                    # What `plan: Plan | None = None` holds once it is set.
                    return UNKNOWN
            if value is None:
                return UNKNOWN
            result = self._engine.evaluate_quietly(frame, value)
            if type(result) is Number:
                return replace(result, overridable_by=result.overridable_by or "attribute")
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
        key = (ref, name)
        project = self._engine.project
        order = project.mro(ref)
        if key not in self._writing:
            found: list[str] = []
            for base in order:
                facts = project.class_facts(base) if "::" in base else None
                for method in facts.writers.get(name, ()) if facts is not None else ():
                    if method not in CONSTRUCTORS:
                        assert facts is not None
                        found.append(f"{base.partition('::')[0]}::{facts.name}.{method}")
            self._writing[key] = tuple(found)
        return self._writing[key]

    def has_plain_fields(self, ref: str) -> bool:
        """Whether the keywords of a call of the class are its fields: it has no constructor, or one for any keyword."""
        project = self._engine.project

        def work() -> bool:
            method = project.find_method(ref, "__init__")
            node = project.function_node(method) if method is not None else None
            return method is None or (node is not None and node.args.kwarg is not None)

        return project.files.uses.memo(self._plain, ref, work, False)

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


def _add(found: dict[Key, list[Value]], key: Key, value: Value) -> None:
    values = found.setdefault(key, [])
    if value not in values:
        values.append(value)


def _telling(values: Sequence[Value]) -> Sequence[Value]:
    """Without values whose tensor may be anywhere, where others put a tensor of the device there."""
    on_device = any(type(value) is Tensor and value.where == "device" for value in values)
    return [value for value in values if not (on_device and type(value) is Tensor and value.where == "any")]


def _filled(value: Value, expected: Value) -> Value:
    """What an attribute with an annotation holds: the annotation does not say where a tensor is, its makers do."""
    made = as_tensor(value)[0]
    return value if made is not None and made.where != "any" else join(value, expected)


MODULE_ATTRIBUTES: dict[str, Value] = {
    "training": Number(type="bool", overridable_by="attribute"),
}


def named_attribute(value: Value, text: str, key: str, known: Marked) -> Value:
    """An attribute's value as an expression sees it: with its name, its identity, and as state of the host.

    `known`: what containers of attributes have been marked as, which costs most.
    """
    if isinstance(value, Tensor):
        name = text.rpartition(".")[2]
        where = where_of(name, value.where)
        dtype = value.dtype
        if dtype is None and MASK_NAME.search(name) and name != "attention_mask":
            dtype = "bool"
        return replace(value, name=text, attr=key, fresh=False, where=where, dtype=dtype)
    if isinstance(value, Number):
        return held_in(value, key)
    if isinstance(value, (SequenceValue, Dict)):
        before, marked = known.get(key, (None, None))
        if before is not value or marked is None:
            marked = held_in(value, key)
            known[key] = value, marked
        return marked
    if isinstance(value, Union):
        options = [named_attribute(option, text, key, known) for option in value.options]
        result = options[0]
        for option in options[1:]:
            result = join(result, option)
        return result
    return value
