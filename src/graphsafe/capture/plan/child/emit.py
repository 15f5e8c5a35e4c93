"""Emits the code that applies a plan, for `breakable-cuda-graphs`.

Each function with breaks is rewritten, and its eager statements become separate functions. Code that captures and
replays the step follows.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import json
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from graphsafe.capture.child.session import Session
from graphsafe.capture.plan.child.box import Box, Edit, unused
from graphsafe.capture.plan.child.plan_data import causes_in
from graphsafe.capture.plan.child.rewrite import living, mangled
from graphsafe.capture.plan.child.search import Search
from graphsafe.capture.plan.shared.marks import FOUND
from graphsafe.capture.plan.shared.passed import between
from graphsafe.capture.plan.shared.regions import Function, Region, function_with, grouped
from graphsafe.capture.plan.shared.statements import stores_in
from graphsafe.capture.shared.places import line_text, shown
from graphsafe.report.source import file_lines

_RUNTIME = ("copies.py", "emitted_runtime.py")
"Emitted code begins with the source of these files, and with their imports."
_TARGET = "graphsafe_target_"
_OF_RUNTIME = ("Any", "SimpleNamespace", "eager", "returned")
"Names from the runtime's files that the generated functions use."


_APPLY = '''\
def apply(fn: Callable[..., Any] | None = None) -> None:
    """Replace the original functions by the functions with breaks; `fn` is the step."""'''
_CAPTURE = '''\
def capture(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    warmup: int = 2,
) -> PlannedStep:
    """The step `fn(*args, **kwargs)` in graphs; replays read the tensors that it is given here."""
    apply(fn)
    return PlannedStep(fn, args, kwargs, warmup=warmup)'''


class Unemittable(Exception):
    """Raised if no code can be written for a plan. The message is one sentence."""


def emitted(session: Session, search: Search, headline: str) -> str:
    """Return the source of a Python file, after checking that it compiles. Raises Unemittable."""
    text = _Writer(session, search).text(headline)
    try:
        compile(text, "<emitted>", "exec")
    except (SyntaxError, ValueError) as error:
        raise Unemittable(f"the code for it does not compile: {error}") from error
    return text


class _Writer:
    def __init__(self, session: Session, search: Search) -> None:
        self._session = session
        self._search = search
        self._imports: dict[str, str] = {}
        "Name -> the statement that binds it."
        self._modules: set[str] = set()
        self._own: set[tuple[str, str]] = set()
        "Module and name of each module-level function that is rewritten. Its callers must call the new version."
        self._installed: list[str] = []
        self._names: set[str] = set()
        "Names of the functions with eager statements."
        entered = {visit.number for visit in search.log.visits}
        self._chosen = {number: region for number, region in enumerate(search.regions) if number in entered}

    def text(self, headline: str) -> str:
        by_function = grouped(self._chosen)
        self._own |= {(_module(self._function(one)), one.name) for one in by_function if "." not in one.name}
        written = [self._written(source, list(chosen)) for source, chosen in by_function.items()]
        imports, runtime = _runtime()
        own = [f"import {name}" for name in self._modules]
        given = joined_imports([*imports, *own, *self._imports.values()])
        top = [f'"""{docstring(headline, self._session.job.target)}"""', "from __future__ import annotations", given]
        installed = "\n".join(f"    {line}" for line in self._installed)
        parts = [*runtime, *written, f"{_APPLY}\n{installed}", _CAPTURE]
        return "\n\n".join(top) + "\n\n\n" + "\n\n\n".join(parts) + "\n"

    def _function(self, source: Function) -> FunctionType:
        found = living(source)
        if not found:
            raise Unemittable(f"no function object holds the code of {source.name}")
        return found[0]

    def _written(self, source: Function, numbers: Sequence[int]) -> str:
        function = self._function(source)
        shared = tuple(name for name in function.__code__.co_freevars if name != "__class__")
        if source.nonlocals:
            raise Unemittable(f"{source.name} assigns a variable of the function around it")
        name = source.name.replace(".", "_")
        lines = list(file_lines(source.path) or ())
        starts = source.node.lineno - 1  # decorators are not repeated, because they stay around the new code
        box = self._box(source, numbers)
        in_order = sorted(numbers, key=lambda number: self._chosen[number].first)
        breaks = [self._break(source, number, lines, box) for number in in_order]
        bodies = [body for body, _ in breaks]
        for edit in sorted((*(edit for _, edit in breaks), *box.edits(source)), reverse=True):
            lines[edit.first - 1 : edit.last] = edit.lines
        end = (source.node.end_lineno or source.node.lineno) + len(lines) - len(file_lines(source.path) or ())
        whole = textwrap.dedent("\n".join(lines[starts:end]))
        whole = re.sub(rf"^(async )?def {source.node.name}\b", f"def {name}", whole, count=1, flags=re.M)
        whole = self._outside_of_class(source, whole)
        try:
            tree = ast.parse("\n\n".join([*bodies, whole]))
        except SyntaxError as error:
            raise Unemittable(f"{source.name} cannot be taken apart: {error.msg}") from error
        self._bind(tree, function)
        if "<locals>" in function.__qualname__:
            self._install_within(function, name, shared)
        else:
            self._install(source, function, name)
        written = f"# {source.name} of {shown(self._search.split.path_of(source.path))}\n{whole}"
        return "\n\n\n".join([*bodies, with_variables(name, shared, written) if shared else written])

    def _install_within(self, function: FunctionType, name: str, shared: Sequence[str]) -> None:
        """Write the code that installs a function which another function makes. The code searches for that function,
        starting from the step."""
        own = f"_within(fn, {json.dumps(function.__qualname__)})"
        names = f"({', '.join(map(json.dumps, function.__code__.co_freevars))},)"
        planned = f"{name}(**_shared({own}, {names}))" if shared else name
        self._installed.append(f"if fn is not None:\n        _replace({own}, {planned})")

    def _box(self, source: Function, numbers: Sequence[int]) -> Box:
        """Return the function's variables that have another value in each step. Raises Unemittable."""
        passing = between(source, [one for one in self._search.regions if function_with(one) is source])
        for region, names in passing.items():
            if names and region not in self._chosen.values():
                raise Unemittable(f"`{names[0]}` of {source.name} is read in code that no step reached")
        visits = [visit for visit in self._search.log.visits if visit.number in numbers]
        bound = {pair for visit in visits for pair in self._search.handed[visit.number].takes if pair[0] in visit.taken}
        return Box(unused("passed", source), passing, bound)

    def _break(self, source: Function, number: int, lines: Sequence[str], box: Box) -> tuple[str, Edit]:
        """Return a function with the eager statements, and the edit that replaces these statements by a call of the
        function."""
        region = self._chosen[number]
        place = source.place(region)
        if place is None:
            raise Unemittable(f"the statements of {source.name} are not found")
        visits = [visit for visit in self._search.log.visits if visit.number == number]
        entered = [{n: f.hosts for n, f in visit.entered.items() if n not in box.returned} for visit in visits]
        parameters = _bound(source, entered)
        ends = source.ends(place)
        results = _bound(source, [{n: f.hosts for n, f in visit.left.items()} for visit in visits])
        line = self._search.split.location(region).line
        own = f"{source.name.replace('.', '_')}_line_{line}"
        if own in self._names:
            own = f"{own}_{region.first}"
        self._names.add(own)
        last = place.statements[-1].end_lineno or region.last
        text = lines[region.first - 1 : last]
        indent = text[0][: len(text[0]) - len(text[0].lstrip())]
        if not lines[region.first - 1].strip() or stores_in(place.statements) & source.globals:
            raise Unemittable(f"{source.name} assigns a global variable")
        why = " ".join(self._why(region).split())
        body = textwrap.indent(textwrap.dedent("\n".join(text)), "    ")
        body = self._outside_of_class(source, body)
        held = sorted({name for visit in visits for name in visit.taken})
        if held or box.passing[region]:
            parameters.append(box.name)
            body = box.around(body, source, region, held)
        if results:
            body += f"\n    return {', '.join(results)}"
        call = f"eager({', '.join([own, *parameters, *self._options(source, number, results)])})"
        if ends:
            call = f"return {call}"
        elif results:
            call = f"{', '.join(results)} = {call}"
        arguments = ", ".join(f"{parameter}: Any" for parameter in parameters)
        head = f"def {own}({arguments}) -> Any:\n" + comment(why, "    ")
        called = (*comment(f"Eager: {why}", indent).splitlines(), indent + call)
        return f"{head}\n{body}", Edit(region.first, last, called)

    def _why(self, region: Region) -> str:
        causes = causes_in(self._search, region)
        if not causes:
            return "it uses the value of another break"
        first = self._search.with_original_lines(causes[0])
        return f"{first.code}, {first.reason} ({line_text(first.line)})"

    def _options(self, source: Function, number: int, results: Sequence[str]) -> list[str]:
        handed = self._search.handed[number]
        found = ["returns=True"] if handed.returns else []
        private = [results.index(name) for name in sorted(handed.private) if name in results]
        if private:
            found.append(f"private=({', '.join(map(str, private))},)")
        if handed.slots:
            places = dict.fromkeys(self._place_of(source, path) for path in handed.slots)
            found.append(f"state=({', '.join(places)},)")
        return found

    def _place_of(self, source: Function, path: str) -> str:
        """Return code that names an attribute of the target in the method that binds it: `(self.load, "mean")`."""
        first = source.first_argument
        owner = source.name.rpartition(".")[0]
        fn: Any = self._session.subject.fn
        held = getattr(fn, "__self__", fn)
        parts = path.split(".")
        for at in range(len(parts)):
            if type(held).__qualname__ == owner and first is not None and parts[-1].isidentifier():
                return f'({".".join([first, *parts[at:-1]])}, "{parts[-1]}")'
            held = getattr(held, parts[at], None)
        raise Unemittable(f"{source.name} rebinds `{path}`, and its code has no name for the owner")

    def _outside_of_class(self, source: Function, text: str) -> str:
        if source.owner is None:
            return text
        text = with_mangled_names(text, source.owner)
        if "super()" not in text:
            return text
        owner = source.name.rpartition(".")[0]
        if "<locals>" in self._function(source).__qualname__:
            raise Unemittable(f"{source.name} calls super() in a class that a function defines")
        return text.replace("super()", f"super({owner}, {source.first_argument or 'self'})")

    def _bind(self, tree: ast.Module, function: FunctionType) -> None:
        """Write an import for each global name in the code. Raises Unemittable if two modules use the same name for
        different objects."""
        module = _module(function)
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Name) or node.id in defined or node.id not in function.__globals__:
                continue
            value = function.__globals__[node.id]
            if (module, node.id) in self._own or hasattr(builtins, node.id) or node.id in _OF_RUNTIME:
                continue
            origin = getattr(value, "__module__", None)
            if isinstance(value, FunctionType) and (origin, value.__name__) in self._own:
                continue
            line = _import(node.id, value, module)
            if self._imports.setdefault(node.id, line) != line:
                raise Unemittable(f"`{node.id}` means different things in {module} and in another module of the plan")

    def _install(self, source: Function, function: FunctionType, name: str) -> None:
        held: Any = sys.modules.get(function.__module__)
        name_there = with_mangled_names(source.name, source.owner) if source.owner else source.name
        for part in name_there.split("."):
            held = getattr(held, part, None)
        if held is None or inspect.unwrap(getattr(held, "__func__", held)) is not function:
            raise Unemittable(f"{source.name} cannot be reached by its name")
        module = _module(function)
        self._modules.add(module)
        self._installed.append(f"_replace({module}.{name_there}, {name})")


def _module(function: FunctionType) -> str:
    return function.__module__.removeprefix(_TARGET)


def _import(name: str, value: Any, module: str) -> str:
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" + (f" as {name}" if value.__name__ != name else "")
    origin = getattr(value, "__module__", None)
    if isinstance(origin, str) and getattr(sys.modules.get(origin), name, None) is value:
        module = origin.removeprefix(_TARGET)
    return f"from {module} import {name}"


def _runtime() -> tuple[list[str], list[str]]:
    """Return the imports of the runtime's files, and for each file the source after its imports."""
    imports: list[str] = []
    bodies: list[str] = []
    for name in _RUNTIME:
        head, _, body = Path(__file__).with_name(name).read_text(encoding="utf-8").partition("# -- begin --\n")
        tree = ast.parse(head).body[2:]  # skip the docstring and the import from __future__
        imports += [ast.unparse(node) for node in tree if "graphsafe" not in ast.unparse(node)]
        bodies.append(body.strip())
    return imports, bodies


def _bound(source: Function, visits: Sequence[dict[str, Any]]) -> list[str]:
    """Return the variables that have a value. Raises Unemittable if a variable has a value only in some visits."""
    names = sorted({name for visit in visits for name in visit if name != "return"})
    order = [argument.arg for argument in (*source.node.args.posonlyargs, *source.node.args.args)]
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    found = []
    for name in names:
        bound = {visit.get(name) != "unbound" for visit in visits}
        if len(bound) > 1:
            raise Unemittable(f"`{name}` of {source.name} has a value in some visits only")
        if bound == {True}:
            found.append(name)
    return found


_WORDS = re.compile(r"(?<!\w)__\w*?[^\W_]\w*")


def with_mangled_names(text: str, owner: str) -> str:
    """Write private names in the mangled form of their class, because emitted code is outside of the class."""
    if "__" not in text:
        return text
    lines = text.splitlines(keepends=True)
    dedented = textwrap.dedent(text)
    indent = len(text.partition("\n")[0]) - len(dedented.partition("\n")[0])
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(dedented).readline))):
        formatted = (
            token.type == tokenize.STRING and "f" in token.string[: token.string.index(token.string[-1])].lower()
        )
        if token.start[0] == token.end[0] and (token.type == tokenize.NAME or formatted):
            line, start, end = lines[token.start[0] - 1], token.start[1] + indent, token.end[1] + indent
            text = _WORDS.sub(lambda word: mangled(word[0], owner), line[start:end])
            lines[token.start[0] - 1] = line[:start] + text + line[end:]
    return "".join(lines)


def with_variables(name: str, shared: Sequence[str], written: str) -> str:
    """Return a function's code inside an outer function. The parameters of the outer function are the variables that
    the original shares with its enclosing function."""
    arguments = ", ".join(f"{variable}: Any" for variable in shared)
    inner = textwrap.indent(written, "    ")
    return f"def {name}({arguments}) -> Callable[..., Any]:\n{inner}\n\n    return {name}"


def joined_imports(lines: Iterable[str]) -> str:
    """Return imports without duplicates, with one `from` line for each module."""
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for line in lines:
        (node,) = ast.parse(line).body
        if isinstance(node, ast.ImportFrom):
            names.setdefault(f"{'.' * node.level}{node.module or ''}", set()).update(map(ast.unparse, node.names))
        else:
            plain.add(line)
    return "\n".join([*sorted(plain), *(f"from {one} import {', '.join(sorted(names[one]))}" for one in sorted(names))])


def comment(text: str, indent: str) -> str:
    return "\n".join(textwrap.wrap(text, 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "))


def docstring(headline: str, target: str) -> str:
    text = f"How {shown(target)} runs as CUDA graphs with eager breaks between them, {FOUND}."
    use = "Needs breakable-cuda-graphs 0.1. `step = capture(fn, args, kwargs)`, then `outputs = step(*args, **kwargs)`."
    parts = ["\n".join(textwrap.wrap(part, 110)) for part in (text, f"{headline[:1].upper()}{headline[1:]}.", use)]
    return "\n\n".join(parts) + "\n"
