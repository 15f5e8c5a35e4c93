"""Functions that take a step: they replay a graph, train or run a model, perhaps through functions of other files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.values import UNKNOWN, Instance, Unknown, Value, options
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.hazards.graph_syntax import called_name, is_short, parents_in
from graphsafe.scan.roots.graphed_names import graphed_names, returns_replay
from graphsafe.scan.roots.kinds_of_loops import EVALUATES, Body, loop_of
from graphsafe.scan.roots.step_calls import Strength, strength_of
from graphsafe.scan.roots.step_names import HELD_MODEL, RUNNER_CALL, StepNames, may_take_step
from graphsafe.scan.roots.tensor_arguments import undeclared
from graphsafe.scan.sources.node_memo import inside, memoize_method
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.blocks import kept_names, matched, parameters
from graphsafe.scan.symbols.index import FileIndex, dotted
from graphsafe.scan.symbols.named_classes import class_named
from graphsafe.scan.symbols.project import Binding, ref_of
from graphsafe.scan.symbols.sole_methods import classes_of

Parents = Mapping[ast.AST, ast.AST]

_ORDER: tuple[Strength, ...] = ("replays", "trains", "runs")
_CALLS_BETWEEN = 2
"The largest number of other files between a loop and the function that takes the loop's step."


class StepTakers:
    """Tells which functions of each file take a step."""

    def __init__(self, engine: Engine, names: StepNames) -> None:
        self.engine = engine
        self.names = names
        self._files: dict[tuple[str, int], FileTakers] = {}

    @memoize_method
    def _may_take_step(self, path: str) -> bool:
        """Return whether a file may contain a call that takes a step."""
        data = self.engine.project.files.data(path) or b""
        return may_take_step(data) or self.names.may_be_called_in(data)

    def of(self, file: FileIndex, between: int = _CALLS_BETWEEN) -> FileTakers:
        """Return the functions of a file that take a step, by calls through at most `between` other files."""
        key = file.path, between
        if key not in self._files:
            self._files[key] = FileTakers(self, file, between)
        return self._files[key]

    def strength(self, ref: str, between: int) -> Strength | None:
        """Return the way in which a function of another file takes a step, or None."""
        path, _, name = ref.partition("::")
        file = self.engine.project.files.index(path)
        if file is None or between < 0 or not self._may_take_step(path):
            return None
        return self.of(file, between).takes.get(name)


class FileTakers:
    """The calls that take a step, in the functions of one file."""

    def __init__(self, all_files: StepTakers, file: FileIndex, between: int) -> None:
        self._all = all_files
        self._engine = all_files.engine
        self._file = file
        self._between = between
        source = self._engine.project.files.source(file.path)
        self._texts = {
            name: "\n".join(source.lines[facts.line - 1 : facts.end_line]).encode()
            for name, facts in file.functions.items()
        }
        self._makes_callables = between > 0 and all_files.names.may_be_made_in(source.text.encode())
        self._graphed = graphed_names(self._engine.project, file.path)
        self._noted: set[str] = set()
        self._arguments: dict[tuple[str, str], list[str]] = {}
        """Parameter and function -> the classes of the passed objects. The list is empty while these classes are being
        searched for."""
        self.takes: dict[str, Strength] = {}
        "Function -> the way in which it takes a step."
        self._spread()

    def is_read(self, name: str) -> bool:
        """Return whether a function was read. A function that was not read takes no step."""
        return name in self._noted

    @memoize_method
    def node(self, name: str) -> Body:
        """Return the syntax of a function, or of the module itself for an empty name."""
        if not name:
            return parse(self._engine.project.files.source(self._file.path).text)
        return self._engine.project.function_node(f"{self._file.path}::{name}") or ast.Module([], [])

    @memoize_method
    def parents(self, name: str) -> Parents:
        return parents_in(self.node(name))

    @memoize_method
    def _calls(self, name: str) -> Sequence[ast.Call]:
        return [node for node in self.parents(name) if isinstance(node, ast.Call)]

    @memoize_method
    def steps_in(self, name: str) -> Sequence[tuple[ast.Call, Strength, ast.stmt | None]]:
        """Return the calls in a function that take a step, each with its strength and the innermost loop around it."""
        return [*self._steps_so_far(name)]

    def _steps_so_far(self, name: str) -> Iterator[tuple[ast.Call, Strength, ast.stmt | None]]:
        parents = self.parents(name)
        for call in self._calls(name):
            strength = self._strength_of(call, name)
            if strength is not None:
                yield call, strength, loop_of(call, parents)

    def _spread(self) -> None:
        """Find the functions that take a step themselves, and then the functions that call them."""
        # These functions contain an inner function and a replay.
        inner = {name.encode() for name, text in self._texts.items() if b".replay(" in text and text.count(b"def ") > 1}
        others = rb"|".join(sorted(self._all.names.functions | inner if self._between else ()))
        elsewhere = re.compile(rb"\b(?:%s)\(" % others) if others else None
        for name, text in self._texts.items():
            calls_others = elsewhere is not None and elsewhere.search(text) is not None
            is_graphed = any(graphed.encode() in text for graphed in self._graphed)
            if self._makes_callables or calls_others or is_graphed or may_take_step(text):
                self._note(name)
        known: dict[str, Strength] = {}
        while known != self.takes:
            known = dict(self.takes)
            called = re.compile(rb"\b(?:%s)\(" % "|".join(sorted({name.rpartition(".")[2] for name in known})).encode())
            for name, text in self._texts.items():
                if known.get(name) != "replays" and known and called.search(text):
                    self._note(name)

    def _note(self, name: str) -> None:
        """Record the way in which a function takes a step. Some functions are left out, because a call of them is not
        one step.

        A function with a loop over batches takes many steps. A generation runs a model once and then again in a loop.
        If the name of a function says that it evaluates, the function runs a model outside steps.
        """
        self._noted.add(name)
        steps = [*self._steps_so_far(name)]
        # A few micro-batches or graphs form one step together.
        found = [
            how
            for call, how, loop in steps
            if (loop is None or is_short(loop)) and not self._runs_own_model(call, name)
        ]
        only_runs = {strength for _, strength, _ in steps} == {"runs"}
        if only_runs and (len(found) < len(steps) or EVALUATES.search(name.rpartition(".")[2])):
            found = []
        if self._file.functions[name].captures:
            # The function warms up and captures. Other functions replay.
            found = [strength for strength in found if strength == "replays"]
        if found:
            self.takes[name] = min(found, key=_ORDER.index)

    def _strength_of(self, call: ast.Call, around: str) -> Strength | None:
        """Return the way in which a call takes a step, directly or through a function of the project, or None."""
        direct = "replays" if self._replays_graphed(call, around) else strength_of(call)
        if direct is not None:
            return direct
        if isinstance(call.func, ast.Name) and self._is_returned_replay(call.func.id, around):
            return "replays"
        for ref in self._called(call, around):
            path, _, name = ref.partition("::")
            if path != self._file.path:
                strength = self._all.strength(ref, self._between - 1)
                # A function of another file that only runs a model may run it only once.
                strength = None if strength == "runs" else strength
            else:
                strength = self.takes.get(name) if name != around else None
            if strength is not None:
                return strength
        runs = RUNNER_CALL.fullmatch(dotted(call.func) or "") or self._runs_own_model(call, around)
        return "runs" if runs else None

    def _runs_own_model(self, call: ast.Call, around: str) -> bool:
        """Return whether a method calls its own module (`logits = self(tokens)`) or a model that its object holds.

        Such calls may also prepare an input or improve a result. So they take a step only in a loop of the method.
        """
        name, facts = dotted(call.func) or "", self._file.functions.get(around)
        if HELD_MODEL.fullmatch(name):
            body = self.node(around)
            given = () if isinstance(body, ast.Module) else parameters(body)
            return "." in name or any(one.arg == name for one in given)
        owner = f"{self._file.path}::{facts.owner}" if facts is not None and facts.owner is not None else None
        if owner is None or not name.startswith("self") or not self._engine.attributes.is_module(owner):
            return False
        return name in ("self", "self.forward") or self._decodes_with(call, name, owner, around)

    def _decodes_with(self, call: ast.Call, name: str, owner: str, around: str) -> bool:
        """Return whether a `while` loop calls a part of a module, as `frame, gate = self.decode_cell(frame, states)`
        does until the gate closes."""
        if name.count(".") != 1 or not call.args or not isinstance(loop_of(call, self.parents(around)), ast.While):
            return False
        return self._engine.project.find_method(owner, name.partition(".")[2]) is None

    # the functions that calls run

    def _replays_graphed(self, call: ast.Call, around: str) -> bool:
        """Return whether a call runs a graphed callable. In a function that switches modules to evaluation, the call
        runs without a graph."""
        if called_name(call) not in self._graphed:
            return False
        return all(called_name(other) != "eval" for other in self._calls(around))

    def _is_returned_replay(self, name: str, around: str) -> bool:
        """Return whether a name stands for a replaying function that was returned by a capturing function."""
        made = self._makers(around).get(name) if name not in self._file.functions else None
        ref = ref_of(self._binding(made[0]), "function") if made else None
        maker = self._engine.project.function_node(ref) if ref is not None else None
        return maker is not None and returns_replay(maker)

    @memoize_method
    def _makers(self, around: str) -> Mapping[str, Sequence[ast.expr]]:
        """Return, for each name that a function binds, the functions and classes whose results the name stands for."""
        found: dict[str, list[ast.expr]] = {}
        for node in self.parents(around):
            if not isinstance(node, ast.Assign):
                continue
            comprehended = isinstance(node.value, (ast.GeneratorExp, ast.ListComp))
            value = node.value.elt if isinstance(node.value, (ast.GeneratorExp, ast.ListComp)) else node.value
            for target in node.targets if isinstance(value, ast.Call) else ():
                assert isinstance(value, ast.Call)
                # Each name may stand for the result of the generator's call:
                # `first, second = (graphed(fn) for fn in functions)`
                for name in getattr(target, "elts", ()) if comprehended else (target,):
                    if isinstance(name, ast.Name):
                        found.setdefault(name.id, []).append(value.func)
        return found

    def _called(self, call: ast.Call, around: str) -> list[str]:
        """Return the functions of the project that a call may run."""
        function, project, path = call.func, self._engine.project, self._file.path
        if isinstance(function, ast.Name):
            if function.id in self._file.functions:
                return [f"{path}::{function.id}"]
            made = self._classes_of(function, around)
            if made or not self._between:
                return _methods(self._engine, made, "__call__")
            binding = project.resolve(self._file, function.id) if function.id in self._file.imports else None
            return [binding.ref] if binding is not None and binding.kind == "function" else []
        if not isinstance(function, ast.Attribute) or not self._may_mean_step(function.attr):
            return []
        classes = self._classes_of(function.value, around)
        found = _methods(self._engine, classes, function.attr)
        if found:
            return found
        if classes:
            return _methods(self._engine, self._classes_of(function, around), "__call__")
        owners = [cls.methods[function.attr] for cls in self._file.classes.values() if function.attr in cls.methods]
        if not owners and self._between and dotted(function.value) is not None:
            told = classes_of(project, self.node(around), function.value, function.attr)
            return _methods(self._engine, told, function.attr)
        return [f"{path}::{owners[0]}"] if len(owners) == 1 else []

    def _may_mean_step(self, name: str) -> bool:
        """Return whether a method with this name may take a step. This cheap test comes first, because finding an
        attribute's values takes time."""
        return (
            self._makes_callables
            or (self._between > 0 and name.encode() in self._all.names.functions)
            or any(known.rpartition(".")[2] == name for known in self.takes)
            or any(known.endswith(".__call__") for known in self.takes)
        )

    def _classes_of(self, node: ast.expr, around: str) -> list[str]:
        """Return the classes of the objects that an expression may evaluate to."""
        facts = self._file.functions.get(around)
        if isinstance(node, ast.Name):
            if node.id == "self" and facts is not None and facts.owner is not None:
                return [f"{self._file.path}::{facts.owner}"]
            return self._made_here(node.id, around) or self._given(node.id, around)
        if isinstance(node, ast.Call):
            made = self._class_named(node.func)
            return [made] if made is not None else []
        if not isinstance(node, ast.Attribute):
            return []
        found: dict[str, None] = {}
        for owner in self._classes_of(node.value, around):
            value = self._engine.attributes.of_instance(Instance(owner), node.attr) or UNKNOWN
            found.update((option.ref, None) for option in options(value) if type(option) is Instance)
            constructor = self._engine.project.find_method(owner, "__init__") if type(value) is Unknown else None
            path, _, name = (constructor or "").partition("::")
            body = self.node(name) if path == self._file.path else None
            parameter = None if body is None or isinstance(body, ast.Module) else kept_names(body).get(node.attr)
            found.update(dict.fromkeys(self._given(parameter, name) if parameter is not None else ()))
        return [*found]

    def objects_given(self, name: str) -> dict[str, Value]:
        """Return the objects that calls in this file pass as parameters whose type the function does not show."""
        body = self.node(name)
        parameters = undeclared(body) if not isinstance(body, ast.Module) else ()
        given = {one: [Instance(ref, declared=True) for ref in self._given(one, name)] for one in parameters}
        return {one: join_all(objects) for one, objects in given.items() if objects}

    def _given(self, parameter: str, function: str) -> list[str]:
        """Return the classes of the objects that calls in this file pass as a parameter of a function. If there are no
        such calls, return the class that the parameter's name suggests."""
        key = parameter, function
        if key not in self._arguments:
            self._arguments[key] = []
            facts, ref = self._file.functions.get(function), f"{self._file.path}::{function}"
            named = class_named(self._engine.project, ref, facts, parameter) if facts is not None else None
            self._arguments[key] = self._passed(parameter, function) or [*filter(None, (named,))]
        return self._arguments[key]

    def _passed(self, parameter: str, function: str) -> list[str]:
        node = self.node(function)
        if isinstance(node, ast.Module):
            return []
        owner, _, name = function.rpartition(".")
        called = owner.rpartition(".")[2] if name == "__init__" else name
        found: dict[str, None] = {}
        spelled = f"{called}(".encode()
        for caller in [caller for caller, text in self._texts.items() if spelled in text]:
            for call in self._calls(caller):
                if (dotted(call.func) or "").rpartition(".")[2] == called:
                    given = [value for value, one in matched(call, node) if one.arg == parameter]
                    found.update(dict.fromkeys(ref for value in given for ref in self._classes_of(value, caller)))
        return [*found]

    def _made_here(self, name: str, around: str) -> list[str]:
        """Return the classes of the objects to which a function binds a name, or the class in a parameter's
        annotation."""
        named = [*self._makers(around).get(name, ())]
        body = self.node(around)
        for argument in () if isinstance(body, ast.Module) else inside(body.args, ast.arg):
            if argument.arg == name and argument.annotation is not None:
                named.append(argument.annotation)
        return [ref for written in named if (ref := self._class_named(written)) is not None]

    def makes_graphs(self, name: str) -> bool:
        """Return whether a function makes an object whose constructor captures."""
        project = self._engine.project
        made = [ref for found in self._makers(name).values() for each in found if (ref := self._class_named(each))]
        constructors = [project.function_facts(ref) for ref in _methods(self._engine, made, "__init__")]
        return any(facts is not None and facts.captures for facts in constructors)

    def _class_named(self, node: ast.expr) -> str | None:
        return ref_of(self._binding(node), "class")

    def _binding(self, node: ast.expr) -> Binding | None:
        head, *rest = (dotted(node) or "").split(".")
        binding = self._engine.project.resolve(self._file, head) if head else None
        return self._engine.project.member(binding, rest) if binding is not None and rest else binding


def _methods(engine: Engine, classes: Iterable[str], name: str) -> list[str]:
    return [ref for cls in classes if (ref := engine.project.find_method(cls, name)) is not None]
