"""Attributes of instances. The value of an attribute is the join of the values that constructors and other methods
assign.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from sys import intern

from graphsafe.scan.domain.arguments import TOP_LEVEL, Arguments, Call, arguments_of
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join, join_all
from graphsafe.scan.domain.naming import placed
from graphsafe.scan.domain.summary import Effects, Field, Summary
from graphsafe.scan.domain.values import (
    UNKNOWN,
    Instance,
    NoneValue,
    Number,
    Passed,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    holds_device,
    options,
)
from graphsafe.scan.domain.widening import in_any_call
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.construction.constructed import (
    Constructed,
    UnderConstruction,
    all_constructed,
    perhaps_moved,
)
from graphsafe.scan.interpreter.construction.construction_sites import assigned, built
from graphsafe.scan.interpreter.construction.field_values import add, add_all, objects_passed
from graphsafe.scan.interpreter.given_values import agree, facts_of, filled, is_blank, of_parameter, without_unplaced
from graphsafe.scan.interpreter.named_attribute import Marked
from graphsafe.scan.symbols.blocks import bound_value, parameters
from graphsafe.scan.symbols.declared_fields import declared_in, is_said_to_be_on_host
from graphsafe.scan.symbols.index import ANY_NAME, items_of
from graphsafe.scan.symbols.project import is_module_base

CONSTRUCTORS = ("__init__", "__post_init__", "setup", "_init", "__new__")
FACTORY_DECORATORS = frozenset(("staticmethod", "classmethod"))
MAX_WRITERS = 6


class AttributeTables:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.composed: dict[Field, list[Value]] = {}
        "Attribute of a plain class -> the objects that constructors of other classes pass to it."
        self.constructions: Mapping[Field, Sequence[Value]] = {}
        "Attribute or constructor parameter of a class -> the known values that it gets in calls of the class."
        self._with_known_arguments: Set[str] = frozenset()
        self._under_construction: dict[tuple[str, Passed | None], Effects] = {}
        "The objects whose constructors are being read, by class and constructor arguments."
        self.marked: Marked = {}
        self._modules: dict[str, bool] = {}
        self._plain: dict[str, bool] = {}
        self._keys: dict[str, dict[str, str]] = {}
        self._writing: dict[Field, Sequence[str]] = {}
        "The methods, except constructors, that assign an attribute."

    # assignments in cold code

    def record(self, ref: str, name: str, value: Value) -> None:
        """Record that cold code assigns `value` to the attribute `name` of an instance of the class `ref`."""
        add(self._engine.effects.written, (ref, name), value)

    def expect(self, ref: str, name: str, value: Value) -> None:
        """Record the later value of an attribute that is None at first."""
        add(self._engine.effects.expected, (ref, name), value)

    def include(self, summary: Summary, owner: str = "", ref: str = "") -> None:
        """Add the assignments of a called function's summary. Assignments to the class `owner` count as assignments to
        the class `ref`."""
        effects = self._engine.effects
        add_all(effects.written, summary.written, owner, ref)
        add_all(effects.expected, summary.expected, owner, ref)
        add_all(effects.constructed, summary.constructed)

    def constructed(self, ref: str, values: Mapping[str, Value]) -> None:
        """Record the tensors and numbers that a call puts into fields of a class for which `has_plain_fields` holds."""
        for name, value in values.items():
            of_class = self.of_class(ref, name)
            declared, _ = as_tensor(of_class)
            if type(of_class) is Number:
                add(self._engine.effects.constructed, (ref, name), value)
            elif declared is not None:
                given = as_tensor(value)[0] or declared
                # Objects of a class with a method `to` are filled on the host and move to the device before a step.
                moves = given.where == "host" and self._engine.project.find_method(ref, "to") is not None
                where = declared.where if given.where == "any" or moves else given.where
                value = replace(declared, where=where, dtype=given.dtype or declared.dtype)
                add(self._engine.effects.constructed, (ref, name), value)

    def passed(self, ref: str, values: Mapping[str, Value]) -> None:
        """Record the tensors and objects that a call passes to a constructor, under the attributes that store them."""
        for name, value in values.items():
            # If the constructor's code shows the value, the arguments of its callers add no information.
            if type(self._constructed(Instance(ref)).value(name)) is Unknown:
                for option in options(value):
                    add(self._engine.effects.constructed, (ref, name), in_any_call(option))

    def given(self, ref: str, values: Mapping[str, Value], captures: bool) -> None:
        """Record the tensors and optimizers that a call passes to a constructor, under the constructor's parameters.
        For a constructor that captures, also record objects, because the graph may contain their work."""
        for name, value in values.items():
            for told in facts_of(value, with_objects=captures):
                add(self._engine.effects.constructed, (ref, of_parameter(name)), told)

    def learn(self, constructions: Mapping[Field, Sequence[Value]]) -> None:
        """Keep the values that calls in the project give to attributes, if these values show more than annotations."""
        self.constructions = {key: values for key, values in constructions.items() if self._adds_facts(key, values)}
        self._with_known_arguments = {ref for ref, name in constructions if name == of_parameter(name[1:-1])}

    def shares_arguments(self, ref: str, given: Passed | None) -> bool:
        """Return whether the constructor's arguments are unknown in the call that made this object, but known in other
        calls of the class."""
        return given is None and ref in self._with_known_arguments

    def _adds_facts(self, key: Field, values: Sequence[Value]) -> bool:
        """Return whether calls show more about a field than the value in the class body. This is so if the class body
        shows neither a tensor nor a number. If the class body shows a tensor, calls add something only if all of them
        pass host tensors, or if all of them pass masks. Other tensors count as device tensors anyway."""
        of_class = self.of_class(*key)
        if as_tensor(of_class)[0] is not None:
            tensors = [value for value in values if type(value) is Tensor]
            of_host, masks = (all(one.where == "host" for one in tensors), all(one.dtype == "bool" for one in tensors))
            return len(tensors) == len(values) and (of_host or masks)
        return type(of_class) is not Number

    # values of attributes

    def of_instance(self, owner: Instance, name: str, level: int = TOP_LEVEL) -> Value | None:
        """Return the value of an attribute that is not a method, or None if nothing in the project defines it.

        `level` limits how many levels of methods are read, because the value of one attribute may depend on others.
        """
        made = owner.ref, owner.given
        if self._under_construction and made in self._under_construction:
            # While a constructor is being read, only its assignments so far are known. These assignments change, so the
            # value is not memoised.
            return self.work_out(Instance(owner.ref, given=owner.given), name, level)
        return self._engine.queries.ask(
            ("attribute", *made, name, level),
            lambda: self.work_out(Instance(owner.ref, given=owner.given), name, level),
            lambda: None,
            level,
        )

    def work_out(self, owner: Instance, name: str, level: int) -> Value | None:
        """Compute the value that `of_instance` returns."""
        ref = owner.ref
        made = self._constructed(owner)
        initial = made.value(name)
        value = self._assigned(owner, name, level, initial, made.promised(name))
        if (value is None or type(value) is NoneValue) and level == TOP_LEVEL:
            value = assigned(self._engine, ref, name, value)
        if type(value) is Unknown and level == TOP_LEVEL and owner.given is None:
            value = join_all([*built(self._engine, ref, name)] or [value])
        of_class = self.of_class(ref, name)
        if value is None:
            if type(of_class) is not Unknown or name in self._engine.project.body_names(ref):
                return of_class
            return UNKNOWN if self._writers(ref, name) else None
        if type(value) is Unknown and type(of_class) is not Unknown:
            return of_class
        if type(value) is Unknown and type(initial) is Number:
            return replace(value, state=(self.key(ref, name),))
        by_class = type(of_class) is NoneValue and initial is None
        if by_class or (type(value) is NoneValue and type(of_class) is not Unknown):
            return join(value, of_class)
        return value

    def _assigned(
        self, owner: Instance, name: str, level: int, initial: Value | None, promised: Value | None
    ) -> Value | None:
        """Return the join of the values that constructors, methods, callers and annotations give to an attribute."""
        value = perhaps_moved(initial) if self._writers(owner.ref, ANY_NAME) else initial
        writers: Sequence[str] = self._writers(owner.ref, name) if level else ()
        if level and is_blank(initial):
            writers = (*writers, *self._writers(owner.ref, items_of(name)))
        made = initial if type(initial) is Tensor and initial.where == "device" else None
        on_device = replace(made, dtype=None, ndim=None) if made is not None else None
        for writer in dict.fromkeys(writers[:MAX_WRITERS]):
            # At the deepest level, a method is read only for the class that defines it, and not again for each class
            # that inherits it.
            for_all = level == 1 and owner.given is None
            receiver = Instance(writer.rpartition(".")[0]) if for_all else owner
            summary = self._read(receiver, writer, level - 1)
            found = summary.written.get((receiver.ref, name), ()) if summary is not None else ()
            if found and writer.endswith("._apply") and all(type(v) is Tensor and v.where == "host" for v in found):
                # The module overrides `_apply`, so `to` and `cuda` of the surrounding module do not move its tensors:
                # they stay on the host.
                return found[0]
            for written in found:
                if type(written) is Unknown and not written.host and on_device is not None:
                    written = on_device  # the method replaces the constructor's tensor by another tensor
                value = written if value is None else join(value, written)
        for given in without_unplaced(self._given(owner.ref, name)):
            # The constructor's code does not show the arguments that its callers pass.
            if value is None or type(value) is Unknown:
                value = given
            elif owner.given is None:
                value = join(value, given)
        if promised is None or value is None:
            return promised if value is None else value
        return join(value, promised) if as_tensor(promised)[0] is None else filled(value, promised)

    def _given(self, ref: str, name: str) -> Sequence[Value]:
        """Return the known values that an attribute or constructor parameter gets in calls of its class."""
        return self.constructions.get((ref, name), ())

    def initial(self, owner: Instance, name: str) -> Value | None:
        """Return the value of an attribute before any method except the constructor runs, or None if it has no value
        then."""
        value = self._constructed(Instance(owner.ref, given=owner.given)).value(name)
        if value is None:
            of_class = self.of_class(owner.ref, name)
            return None if type(of_class) is Unknown else of_class
        return value

    def _constructed(self, owner: Instance) -> Constructed | UnderConstruction:
        return self._engine.queries.ask(
            ("constructed", owner.ref, owner.given),
            lambda: self._construct(owner),
            lambda: self._constructed_so_far(owner),
        )

    def _construct(self, owner: Instance) -> Constructed | UnderConstruction:
        engine = self._engine
        outer, engine.effects = engine.effects, Effects()
        self._under_construction[owner.ref, owner.given] = engine.effects
        try:
            for call in self._constructor_calls(owner):
                engine.read(call, out_of_scope=self._out_of_scope(call.ref))
            for field, value in objects_passed(owner.ref, engine.effects.constructed, self.is_module):
                add(self.composed, field, value)
            return all_constructed(owner.ref, engine.effects)
        finally:
            engine.effects = outer
            del self._under_construction[owner.ref, owner.given]

    def _constructor_calls(self, owner: Instance) -> Iterator[Call]:
        """Yield the constructor calls that make an object, each with its arguments if these are known."""
        ref, given = owner.ref, owner.given
        found = {name: self._engine.project.find_method(ref, name) for name in CONSTRUCTORS}
        if given is not None and found["__init__"] is None:
            for name, value in self._fields_given(ref, given):
                self.record(ref, name, value)
        for name, method in found.items():
            if method is None:
                continue
            if given is None:
                yield Call(method, owner, self.told(ref, method) if name == "__init__" else Arguments(), level=0)
            elif name in ("__init__", "__post_init__"):
                arguments = arguments_of(given if name == "__init__" else None)
                yield Call(method, owner, arguments, depth=1, level=0, composes=True)
        if given is None:
            yield from (Call(method, owner, level=0) for method in self._factories(ref))

    def told(self, ref: str, constructor: str) -> Arguments:
        """Return the values that calls pass to a constructor, without tensors that only some calls have on the host."""
        node = self._engine.project.function_node(constructor)
        given = {one.arg: self._given(ref, of_parameter(one.arg)) for one in (parameters(node) if node else ())}
        told = {name: join_all(without_unplaced(values)) for name, values in given.items() if agree(values)}
        return Arguments(keywords=told)

    def _fields_given(self, ref: str, given: Passed) -> Iterator[tuple[str, Value]]:
        """For a class without a constructor, yield the fields with the values that a call puts into them."""
        names = self.field_names(ref)
        yield from zip(names, given.positional, strict=False)
        yield from ((name, value) for name, value in given.keywords if name in names)

    def field_names(self, ref: str) -> Sequence[str]:
        """Return the names that the bodies of a class and its bases bind. The names of the topmost base come first."""
        known = reversed([*self._engine.project.own_classes(ref)])
        return [*dict.fromkeys(name for _, facts in known for name in facts.fields)]

    def _constructed_so_far(self, owner: Instance) -> UnderConstruction:
        """Return the effects recorded so far by the constructors that are being read and by the functions they call."""
        calling: list[Effects] = []
        effects: Effects | None = self._engine.effects
        begun, ref = self._under_construction[owner.ref, owner.given], owner.ref
        while effects is not None and effects is not begun:
            calling.append(effects)
            effects = effects.outer
        return UnderConstruction(ref, [begun, *reversed(calling)] if effects is begun else [begun])

    def _read(self, owner: Instance, method: str, level: int) -> Summary | None:
        """Return the summary of a method that assigns attributes."""
        engine = self._engine
        outer, engine.effects = engine.effects, Effects()
        try:
            return engine.summary(Call(method, owner, level=level), self._out_of_scope(method))
        finally:
            engine.effects = outer

    def _out_of_scope(self, method: str) -> int:
        return 0 if self._engine.budget.holds(method) else 1

    def key(self, ref: str, name: str) -> str:
        """Return the key `path::Class.name` of an attribute, with the topmost class that assigns it. Subclasses share
        this key."""
        keys = self._keys.setdefault(ref, {})
        if name not in keys:
            owner = ref
            for base, facts in self._engine.project.own_classes(ref):
                if name in facts.writers or name in facts.fields:
                    owner = base
            keys[name] = intern(f"{owner}.{name}")
        return keys[name]

    def is_module(self, ref: str) -> bool:
        """Return whether instances are torch modules: a call runs `forward`, and `to` moves their buffers."""
        if ref not in self._modules:
            self._modules[ref] = any(map(is_module_base, self._engine.project.mro(ref)))
        return self._modules[ref]

    def of_class(self, ref: str, name: str) -> Value:
        """Return the value that a name gets in the body of the class or of one of its bases."""
        return self._engine.queries.ask(("class", ref, name), lambda: self._class_body(ref, name), lambda: UNKNOWN)

    def _class_body(self, ref: str, name: str) -> Value:
        project = self._engine.project
        for base, facts in project.own_classes(ref):
            if name not in facts.fields:
                continue
            path = base.partition("::")[0]
            file = project.files.index(path)
            statement = project.files.statement(path, *facts.fields[name])
            if file is None or statement is None:
                return UNKNOWN
            frame = Frame(self._engine, file, f"{path}::{facts.name}", {}, hot=False, depth=2, level=0)
            value = bound_value(statement, name)
            if isinstance(statement, ast.AnnAssign):
                declared = annotated(self._engine, file, statement.annotation)
                if holds_device(declared):
                    on_host = name in declared_in(project, path).on_host
                    on_host = on_host or is_said_to_be_on_host(project, path, facts.fields[name][1])
                    declared = placed(declared, name, False, "host" if on_host else "any")
                if value is None or (type(declared) is not Unknown and type(declared) is not Number):
                    return declared
                if isinstance(value, ast.Constant) and value.value is None:
                    # `plan: Plan | None = None` does not show which value the field has later.
                    return UNKNOWN
            if value is None:
                return UNKNOWN
            result = frame.evaluate_quietly(value)
            if type(result) is Number:
                return replace(result, overridable_by=result.overridable_by or "attribute")
            return result
        return UNKNOWN

    def _writers(self, ref: str, name: str) -> Sequence[str]:
        key = (ref, name)
        if key not in self._writing:
            self._writing[key] = tuple(
                f"{base}.{method}"
                for base, facts in self._engine.project.own_classes(ref)
                for method in facts.writers.get(name, ())
                if method not in CONSTRUCTORS
            )
        return self._writing[key]

    def has_plain_fields(self, ref: str) -> bool:
        """Return whether keywords in calls of a class set fields. This is so if the class has no constructor, or if its
        constructor takes `**kwargs`."""
        if ref not in self._plain:
            project = self._engine.project
            method = project.find_method(ref, "__init__")
            node = project.function_node(method) if method is not None else None
            self._plain[ref] = method is None or (node is not None and node.args.kwarg is not None)
        return self._plain[ref]

    def _factories(self, ref: str) -> list[str]:
        """Return the methods that make the instances of a class with plain fields."""
        project = self._engine.project
        facts = project.class_facts(ref)
        if facts is None or not facts.fields or not self.has_plain_fields(ref):
            return []
        methods = project.own_methods(ref)
        return [one for one in methods if not FACTORY_DECORATORS.isdisjoint(project.decorators(one))][:MAX_WRITERS]
