"""The definitions of one file: imports, classes, functions, and the attributes that each method assigns.

An index is small enough to keep in memory for every file of a large project. Function bodies are parsed again when they
are needed, one function at a time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from sys import intern

from graphsafe.scan.sources.source import Source
from graphsafe.scan.sources.suppress import comment_tokens
from graphsafe.scan.symbols.blocks import Definition, attribute_of, blocks_of, bound_names, first_line, flat, targets_of
from graphsafe.scan.symbols.imports import import_targets

MARK = re.compile(r"#\s*graphsafe:\s*(\w+)")
HOT_MARK = re.compile(r"#\s*graphsafe:\s*(hot|cold)\b")
MAX_CHAIN = 100
HANDING_OVER = ("_hook(", ".forward = ")
"Parts of lines that pass a function to torch. torch then calls the function in every step."
GRAPHED = ("make_graphed_callables", "CudaGraphModule")
"Suffixes of the names of functions and classes (of PyTorch and tensordict) that capture a callable."
CAPTURING_MODES = ("reduce-overhead", "max-autotune")
"Modes of torch.compile that capture."
CAPTURE_WORDS = ("graph(", *GRAPHED, "capture_begin", "accelerator.Graph", *CAPTURING_MODES)
CAPTURE_ENDS = ("cuda.graph", "cuda.graphs.graph", "xpu.graph", "npu.graph", ".capture_begin")
"Suffixes of the names of context managers that capture."
GRAPH_ENDS = ("CUDAGraph", "XPUGraph", "NPUGraph")
"Suffixes of the names of graph classes."

ANY_NAME = "*"
"The key in `writers` for methods that put tensors into attributes whose names the source does not show."
_OF_TENSORS = frozenset("Tensor is_tensor to cuda".split())
_REGISTERING = frozenset("register_buffer register_parameter add_module register_module".split())
_FIELDS = re.compile(r"%\d*[ds]|\{[^{}]*\}")
"Matches the placeholders of a format string."
_KERNEL = re.compile(r"(?!torch\.)(\w+\.)*n?jit|(?!torch\.)(\w+\.)+(kernel|prim_func|macro)")
"""Matches decorators of kernel languages, such as `@triton.jit`, `@cute.kernel` and `@T.prim_func`. Functions that
torch compiles are excluded, because they also run in Python."""
PUTS = frozenset(("append", "appendleft", "extend", "insert", "add", "update"))
"Methods that put values into a container."


@dataclass(slots=True)
class FunctionFacts:
    """The facts about one function or method."""

    name: str
    "The qualified name within the module: `Decoder.forward`."
    line: int
    "The line of the first decorator, or of `def`."
    end_line: int
    decorators: tuple[str, ...] = ()
    owner: str | None = None
    "The class whose body contains the function."
    mark: str | None = None
    "`hot` or `cold`, from a `# graphsafe:` comment between the first decorator and the body, or on the line above."
    captures: bool = False
    "Whether the function has a `with` block that captures, or names a function that makes a graph."
    hands_over: bool = False
    "Whether the function may register a hook or assign `forward`."
    is_async: bool = False

    def holds(self, line: int) -> bool:
        return self.line <= line <= self.end_line

    @property
    def is_method(self) -> bool:
        """Whether the function's first parameter is its receiver: an instance or the class."""
        return self.owner is not None and "staticmethod" not in self.decorators


@dataclass(slots=True)
class ClassFacts:
    """The facts about one class."""

    name: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...] = ()
    methods: dict[str, str] = field(default_factory=dict)
    "Name -> qualified name. Of several overloads, the last one is listed."
    writers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Attribute of `self` -> the methods that assign it. The key `items_of(attribute)` lists the methods that put
    values into the attribute's container."""
    fields: dict[str, tuple[int, int]] = field(default_factory=dict)
    "Name that the class body binds -> first and last line of the statement."


@dataclass(slots=True)
class FileIndex:
    """The definitions and imports of one file."""

    path: str
    "The absolute path, as in the file system."
    module: str
    is_package: bool
    imports: dict[str, str] = field(default_factory=dict)
    "Local name -> absolute dotted target."
    stars: list[str] = field(default_factory=list)
    functions: dict[str, FunctionFacts] = field(default_factory=dict)
    classes: dict[str, ClassFacts] = field(default_factory=dict)
    assigns: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    "Module-level name -> the lines of the statements that bind it, in order."
    captures: bool = False
    "Whether code at module level captures."
    replays: bool = False
    "Whether the file calls something named `replay`."
    stray_marks: list[int] = field(default_factory=list)
    "The lines of comments that look like marks of functions but mark none."

    @property
    def imports_torch(self) -> bool:
        return any(target.partition(".")[0] == "torch" for target in self.imports.values())


def build_index(source: Source, tree: ast.Module, module: str, is_package: bool) -> FileIndex:
    index = FileIndex(str(source.path), module, is_package)
    builder = _Builder(index, source)
    builder.module_body(tree.body)
    index.stray_marks = builder.stray_marks()
    return index


def _lines_with(source: Source, words: Iterable[str]) -> list[int]:
    """Return the numbers of the lines that contain one of the words."""
    held = [word for word in words if word in source.text]
    return [number for number, line in enumerate(source.lines, 1) if any(word in line for word in held)] if held else []


class _Builder:
    def __init__(self, index: FileIndex, source: Source) -> None:
        self.index = index
        self.source = source
        self.marks: dict[int, str] = {}
        if "graphsafe:" in source.text:
            found = ((number, HOT_MARK.search(line)) for number, line in enumerate(source.lines, 1))
            self.marks = {number: match[1] for number, match in found if match is not None}
        self._unused = set(self.marks)
        "Lines of marks that belong to no function so far."
        self.capture_lines = _lines_with(source, CAPTURE_WORDS)
        self.handing_over = _lines_with(source, HANDING_OVER)
        index.replays = ".replay()" in source.text

    def stray_marks(self) -> list[int]:
        """Return the lines of comments that mark no function, because the comments are misplaced or misspelt."""
        if "graphsafe:" not in self.source.text:
            return []
        misspelt = {number for number, line in enumerate(self.source.lines, 1) if meant_mark(line) is not None}
        stray = misspelt | self._unused
        return [row for row, _, _, _ in comment_tokens(self.source.text) if row in stray] if stray else []

    def module_body(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._module_statement(statement)

    def _module_statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(node, "", None)
        elif isinstance(node, ast.ClassDef):
            self._class(node, "")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For)):
            for name in bound_names(node):
                self.index.assigns.setdefault(name, []).append((node.lineno, node.end_lineno or node.lineno))
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            for block in blocks_of(node):
                self.module_body(block)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.index.captures = self.index.captures or self._captures(node)

    def _captures(self, node: ast.stmt) -> bool:
        last = node.end_lineno or node.lineno
        return any(node.lineno <= number <= last for number in self.capture_lines) and captures(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        imports = self.index.imports
        for local, target in import_targets(node, self.index.module, self.index.is_package):
            if local == "*":
                self.index.stars.append(target)
            else:
                imports[local] = intern(target)

    def _class(self, node: ast.ClassDef, prefix: str) -> None:
        name = f"{prefix}{node.name}"
        bases = tuple(intern(text) for base in node.bases if (text := dotted(base)))
        facts = ClassFacts(name, node.lineno, bases, tuple(filter(None, map(decorator_name, node.decorator_list))))
        self.index.classes[name] = facts
        for statement in flat(node.body):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                function = self._function(statement, f"{name}.", name)
                method = intern(function.name.removeprefix(f"{name}."))
                facts.methods[method] = function.name
                for attribute in _written_attributes(statement):
                    writers = facts.writers.get(attribute, ())
                    if method not in writers:
                        facts.writers[attribute] = (*writers, method)
            elif isinstance(statement, ast.ClassDef):
                self._class(statement, f"{name}.")
            else:
                for bound in bound_names(statement):
                    facts.fields[bound] = (statement.lineno, statement.end_lineno or statement.lineno)

    def _function(self, node: Definition, prefix: str, owner: str | None) -> FunctionFacts:
        first = first_line(node)
        mark = self._mark(first, max(node.lineno, first_line(node.body[0]) - 1))
        decorators = tuple(intern(text) for part in node.decorator_list if (text := decorator_name(part)))
        # A property's setter must not hide its getter.
        role = next((text for text in decorators if text in (f"{node.name}.setter", f"{node.name}.deleter")), node.name)
        facts = FunctionFacts(
            name=f"{prefix}{role}",
            line=first,
            end_line=node.end_lineno or node.lineno,
            decorators=decorators,
            owner=owner,
            mark=mark,
            captures=self._captures(node),
            hands_over=any(first < number <= (node.end_lineno or node.lineno) for number in self.handing_over),
            is_async=isinstance(node, ast.AsyncFunctionDef),
        )
        self.index.functions[facts.name] = facts
        if not node.name.startswith("test"):
            # A class inside a test function is not part of an engine.
            for statement in flat(node.body):
                if isinstance(statement, ast.ClassDef):
                    self._class(statement, f"{facts.name}.")
        return facts

    def _mark(self, first: int, last: int) -> str | None:
        """Return the mark on a line of a function's head, or on the line above, and record that it is used."""
        head = [number for number in range(first, last + 1) if number in self.marks]
        above = first - 1
        if not head and above in self.marks and self.source.lines[above - 1].lstrip().startswith("#"):
            head = [above]
        self._unused.difference_update(head)
        return self.marks[head[0]] if head else None


def meant_mark(line: str) -> str | None:
    """Return the mark that a misspelt comment means (`hot` for `# graphsafe: hto`), or None."""
    found = MARK.search(line)
    word = found[1].lower() if found is not None and HOT_MARK.search(line) is None else ""
    return next(iter(get_close_matches(word, ("hot", "cold"), 1, 0.6)), None) if word else None


def dotted(node: ast.expr) -> str | None:
    """Return the dotted name (`a.b.c`) of an attribute chain. For a subscript such as `Generic[T]`, use the part before
    the bracket. Return None for other expressions.

    Return None for a chain longer than MAX_CHAIN, because the names of all its parts would take quadratic time.
    """
    text = ""
    for _ in range(MAX_CHAIN):
        kind = type(node)
        if kind is ast.Name:
            return node.id + text  # type: ignore[attr-defined, no-any-return]
        if kind is ast.Attribute:
            text = f".{node.attr}{text}"  # type: ignore[attr-defined]
        elif kind is not ast.Subscript:
            return None
        node = node.value  # type: ignore[attr-defined]
    return None


def is_none(node: ast.AST) -> bool:
    """Return whether an expression is the literal `None`."""
    return isinstance(node, ast.Constant) and node.value is None


def takes_slice(target: ast.expr) -> bool:
    """Return whether a subscript takes a slice of a tensor, in contrast to an entry of a table."""
    return isinstance(target, ast.Subscript) and any(isinstance(part, ast.Slice) for part in elements(target.slice))


def elements(node: ast.expr) -> Sequence[ast.expr]:
    """Return the elements of a tuple or list. For any other expression, return only the expression itself."""
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def decorator_name(node: ast.expr) -> str | None:
    """Return a decorator's dotted name, or None. The mode of a `torch.compile` follows in parentheses."""
    if not isinstance(node, ast.Call):
        return dotted(node)
    mode = _mode_of(node)
    return f"{dotted(node.func)}({mode})" if mode is not None else dotted(node.func)


def _mode_of(call: ast.Call) -> str | None:
    """Return the constant that a call passes as `mode`."""
    given = (word.value for word in call.keywords if word.arg == "mode" and isinstance(word.value, ast.Constant))
    return next((str(constant.value) for constant in given), None)


def _written_attributes(function: Definition) -> Iterator[str]:
    """Yield the attributes that a method assigns on its first parameter, also in nested blocks."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments:
        return
    owner = arguments[0].arg
    stack: list[ast.stmt] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Call):
                yield from _registered(node.value, owner, function)
                yield from _put_into(node.value, owner)
            continue
        for target in targets_of(node):
            is_item = isinstance(target, ast.Subscript)
            name = attribute_of(target.value if isinstance(target, ast.Subscript) else target, owner)
            if name is not None:
                yield items_of(name) if is_item else name
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in blocks_of(node):
                stack.extend(block)


def _put_into(call: ast.Call, owner: str) -> Iterator[str]:
    """Yield the key of the attribute into whose container a call puts values: `self.outputs.append(out)`."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in PUTS:
        holder = attribute_of(function.value, owner)
        if holder is not None:
            yield items_of(holder)


def items_of(attribute: str) -> str:
    """Return the key in `writers` for methods that put items into an attribute's container: `self.outputs[n] = out`."""
    return f"{attribute}[]"


def _registered(call: ast.Call, owner: str, method: Definition) -> Iterator[str]:
    """Yield the name in a call such as `self.register_buffer("name", …)` or `setattr(self, "name", …)`. For
    `setattr(self, name, …)` in a method that works on tensors, yield `ANY_NAME`."""
    function = call.func
    first = call.args[0] if call.args else None
    made: ast.expr | None = None
    if attribute_of(function, owner) in _REGISTERING:
        made = first
    elif isinstance(function, ast.Name) and function.id == "setattr" and len(call.args) == 3:
        made = call.args[1] if isinstance(first, ast.Name) and first.id == owner else None
    name = name_made_by(made) if made is not None else None
    if name is not None:
        yield name
    elif made is not None and any(
        isinstance(node, ast.Attribute) and node.attr in _OF_TENSORS for node in ast.walk(method)
    ):
        yield ANY_NAME


def name_made_by(node: ast.expr) -> str | None:
    """Return the name that an expression makes, with `*` for parts that vary: `table*` for `f"table{i}"`, for
    `"table" + str(i)` and for `"table%d" % i`. All such names count as one attribute. Return None if no part is
    visible."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [name_made_by(part) or "*" for part in node.values]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [name_made_by(node.left) or "*", name_made_by(node.right) or "*"]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        parts = [_FIELDS.sub("*", name_made_by(node.left) or "")]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        parts = [_FIELDS.sub("*", name_made_by(node.func.value) or "")]
    else:
        return None
    name = "".join(parts)
    return name if name.strip("*") else None


def is_kernel(decorators: Iterable[str]) -> bool:
    """Return whether a kernel language compiles a function, given the dotted names of its decorators. Python never runs
    the body of such a function."""
    return any(_KERNEL.fullmatch(decorator) for decorator in decorators)


def captures(node: ast.AST) -> bool:
    """Return whether the statement opens a graph capture or passes a callable to a function that captures it."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.With, ast.AsyncWith)):
            for item in inner.items:
                if isinstance(item.context_expr, ast.Call):
                    name = dotted(item.context_expr.func) or ""
                    if name == "graph" or name.endswith(CAPTURE_ENDS):
                        return True
        elif isinstance(inner, ast.Call):
            name = dotted(inner.func) or ""
            if name.endswith((*GRAPHED, "capture_begin", "accelerator.Graph")):
                return True
            if name.endswith("compile") and _mode_of(inner) in CAPTURING_MODES:
                return True
    return False
