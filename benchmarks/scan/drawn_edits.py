"""Whether a scan with a cache says after any edit what a scan without one says: thousands of edits, drawn at random.

    python benchmarks/scan/drawn_edits.py FOLDER [--count 2000] [--seed 1] [--files 100]

The Python files of FOLDER are copied into a project of their own. Then edits of all kinds are made to it: to bodies,
headers, methods, class variables, bases, decorators, imports, lambdas in tables, and to which files there are. Twelve
are made one on top of the other, then the project starts anew. After each the project is scanned twice in this process,
with the cache and without. Prints how often each kind was answered without a scan, and each edit after which the two
reports differ. Exits with 1 if any do. benchmarks/scan/after_edits.py measures what scans after an edit cost.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from graphsafe.config import Config
from graphsafe.report.forms import render
from graphsafe.report.model import Report
from graphsafe.scan import api
from graphsafe.scan.incremental.cache import FOLDER as CACHE
from graphsafe.scan.symbols.index import first_line

IN_A_ROW = 12
"Edits before the project starts anew."


class Unfit(Exception):
    """A file has nothing that this kind of edit is about."""


class Text:
    """A file that is edited: its lines, and the tree of what they were."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").split("\n")
        try:
            self.tree = ast.parse("\n".join(self.lines))
        except SyntaxError:
            raise Unfit from None

    def nodes(self, *kinds: type[ast.AST]) -> list[ast.AST]:
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    def functions(self) -> list[ast.FunctionDef]:
        """Those whose bodies have lines of their own."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        return [node for node in found if node.body[0].lineno > node.lineno]

    def classes(self) -> list[ast.ClassDef]:
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        return [node for node in found if node.body[0].lineno > node.lineno]

    def insert(self, before: ast.stmt, *texts: str) -> None:
        at = first_line(before) - 1
        self.lines[at:at] = [" " * before.col_offset + text for text in texts]

    def replace(self, node: ast.expr | ast.stmt | ast.arg, text: str) -> None:
        """Put `text` in the place of a node, which may be several lines long."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        first, last = self.lines[node.lineno - 1].encode(), self.lines[node.end_lineno - 1].encode()
        joined = first[: node.col_offset] + text.encode() + last[node.end_col_offset :]
        self.lines[node.lineno - 1 : node.end_lineno] = joined.decode().split("\n")

    def remove(self, node: ast.stmt, siblings: Sequence[ast.stmt]) -> None:
        assert node.end_lineno is not None
        filler = [] if len(siblings) > 1 else [" " * node.col_offset + "pass"]
        self.lines[first_line(node) - 1 : node.end_lineno] = filler

    def save(self) -> None:
        self.path.write_text("\n".join(self.lines), encoding="utf-8")


def one_of(draw: random.Random, found: Sequence[object]) -> object:
    if not found:
        raise Unfit
    return draw.choice(found)


STATEMENTS = (
    "a_new_name = 1",
    "import torch; torch.ones(3, device='cuda').tolist()",
    "import torch; torch.cuda.synchronize()",
    "if len(str(1)) == 3: return None",
    "helper_of_all = None",
    "# a comment",
    "print('x')",
)
METHODS = (
    ("def a_new_method(self, x):", "    return x.item()"),
    ("def forward(self, x):", "    return x.sum().item()"),
    ("def __getattr__(self, name):", "    return None"),
    ("@property", "def a_new_property(self):", "    return self.a_new_name"),
)


def body(text: Text, draw: random.Random) -> None:
    """A statement more or less, or another constant."""
    function = one_of(draw, text.functions())
    assert isinstance(function, ast.FunctionDef)
    choice = draw.randrange(4)
    if choice == 0:
        text.remove(draw.choice(function.body), function.body)
    elif choice == 1:
        constants = [node for node in ast.walk(function) if isinstance(node, ast.Constant) and type(node.value) is int]
        constant = one_of(draw, constants)
        assert isinstance(constant, ast.Constant)
        text.replace(constant, str(draw.randrange(5)))
    else:
        receiver = function.args.args[0].arg if function.args.args else ""
        own = (f"{receiver}.a_new_name = 1", f"{receiver}.a_new_name = {receiver}") if receiver == "self" else ()
        text.insert(draw.choice(function.body), draw.choice((*STATEMENTS, *own)))


def header(text: Text, draw: random.Random) -> None:
    """A parameter more, a default, or an annotation less."""
    function = one_of(draw, text.functions())
    assert isinstance(function, ast.FunctionDef)
    annotated = [argument for argument in function.args.args if argument.annotation is not None]
    choice = draw.randrange(3)
    if choice == 0 and annotated:
        argument = draw.choice(annotated)
        text.replace(argument, argument.arg)
    elif choice == 1 and function.args.defaults:
        text.replace(draw.choice(function.args.defaults), draw.choice(("None", "True", "3")))
    else:
        line = text.lines[function.lineno - 1].rstrip()
        if "):" not in line or function.args.kwarg is not None:
            raise Unfit
        text.lines[function.lineno - 1] = line.replace("):", "**more):" if "()" in line else ", **more):", 1)


def method(text: Text, draw: random.Random) -> None:
    """A method more, less, or under another name."""
    cls = one_of(draw, text.classes())
    assert isinstance(cls, ast.ClassDef)
    own = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    choice = draw.randrange(3)
    if choice == 0 or not own:
        text.insert(draw.choice(cls.body), *draw.choice(METHODS))
    elif choice == 1:
        text.remove(draw.choice(own), cls.body)
    else:
        chosen = draw.choice(own)
        line = text.lines[chosen.lineno - 1]
        text.lines[chosen.lineno - 1] = line.replace(f"def {chosen.name}", f"def {chosen.name}_renamed", 1)


def function(text: Text, draw: random.Random) -> None:
    """A function of the module more or less."""
    own = [node for node in text.tree.body if isinstance(node, ast.FunctionDef)]
    if own and draw.random() < 0.5:
        text.remove(draw.choice(own), text.tree.body)
    else:
        text.lines += ["", "", "def a_new_function(x):", "    return x.item()"]


def class_variable(text: Text, draw: random.Random) -> None:
    cls = one_of(draw, text.classes())
    assert isinstance(cls, ast.ClassDef)
    own = [node for node in cls.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    if own and draw.random() < 0.5:
        text.remove(draw.choice(own), cls.body)
    else:
        value = draw.choice(("1", "None", "[1, 2]", "lambda self, x: x.item()", "__import__('torch').zeros(3)"))
        text.insert(draw.choice(cls.body), f"{draw.choice(('a_new_name', 'training', 'config'))} = {value}")


def bases(text: Text, draw: random.Random) -> None:
    cls = one_of(draw, [cls for cls in text.classes() if cls.bases])
    assert isinstance(cls, ast.ClassDef)
    text.replace(draw.choice(cls.bases), draw.choice(("object", "__import__('torch').nn.Module", "Unknown")))


def decorator(text: Text, draw: random.Random) -> None:
    """One more or one less."""
    found = one_of(draw, text.functions())
    assert isinstance(found, ast.FunctionDef)
    if found.decorator_list and draw.random() < 0.7:
        first = draw.choice(found.decorator_list)
        if first.end_lineno != first.lineno:
            raise Unfit
        del text.lines[first.lineno - 1]
    else:
        names = ("torch.no_grad()", "functools.lru_cache", "torch.compile", "staticmethod", "property", "classmethod")
        text.insert(found, f"@{draw.choice(names)}")


def imports(text: Text, draw: random.Random) -> None:
    """One less, another name, or another module behind a name."""
    own = [node for node in text.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    found = one_of(draw, [node for node in own if getattr(node, "module", "") != "__future__"])
    assert isinstance(found, (ast.Import, ast.ImportFrom))
    choice = draw.randrange(3)
    if choice == 0:
        text.remove(found, text.tree.body)
    elif choice == 1:
        name = found.names[0].asname or found.names[0].name.partition(".")[0]
        text.insert(text.tree.body[-1], f"import a_module_that_is_not_there as {name}")
    else:
        text.insert(found, draw.choice(("from math import *", "import numpy as torch", "import copy, functools")))


def table(text: Text, draw: random.Random) -> None:
    """A lambda of a table at module level changes, or there is a table more."""
    lambdas = [
        inner
        for statement in text.tree.body
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Lambda)
    ]
    if lambdas and draw.random() < 0.7:
        text.replace(draw.choice(lambdas).body, draw.choice(("None", "1", "(lambda y: y.item())", "input().item()")))
        return
    functions = [f for f in text.functions() if [a.arg for a in f.args.args][:1] == ["self"] and len(f.args.args) > 1]
    used = one_of(draw, functions)
    assert isinstance(used, ast.FunctionDef)
    text.insert(used.body[-1], f"A_NEW_TABLE['first']({used.args.args[1].arg})")
    text.lines += ["", "", "A_NEW_TABLE = {'first': lambda x: x.item(), 'second': lambda x: x}"]


def module_level(text: Text, draw: random.Random) -> None:
    own = [node for node in text.tree.body if isinstance(node, (ast.Assign, ast.AnnAssign, ast.If))]
    if own and draw.random() < 0.5:
        text.remove(draw.choice(own), text.tree.body)
    else:
        text.lines += ["", draw.choice(("A_NEW_CONSTANT = 1", "torch = None", "DEBUG = True", "del A_NEW_CONSTANT"))]


def lines_only(text: Text, draw: random.Random) -> None:
    text.insert(draw.choice(text.tree.body[1:] or text.tree.body), *["# A comment.", ""][: draw.randint(1, 2)])


IN_FILES: tuple[Callable[[Text, random.Random], None], ...] = (
    body, body, header, method, function, class_variable, bases, decorator, imports, table, module_level, lines_only
)  # fmt: skip


def added_file(project: Path, files: list[Path], draw: random.Random) -> None:
    """A copy under another name, or in another folder's place."""
    path = draw.choice(files)
    target = draw.choice(files).parent / draw.choice((f"{path.stem}_copy.py", path.name, "__init__.py", "torch.py"))
    if target != path:
        shutil.copy(path, target)


def deleted_file(project: Path, files: list[Path], draw: random.Random) -> None:
    draw.choice(files).unlink()


def renamed_file(project: Path, files: list[Path], draw: random.Random) -> None:
    path = draw.choice(files)
    path.rename(path.with_name(f"{path.stem}_renamed.py"))


def copied_over(project: Path, files: list[Path], draw: random.Random) -> None:
    """Another file's content, as a change of branches brings it."""
    draw.choice(files).write_bytes(draw.choice(files).read_bytes())


OF_FILES: tuple[Callable[[Path, list[Path], random.Random], None], ...] = (
    added_file, deleted_file, renamed_file, copied_over
)  # fmt: skip


class Project:
    """A copy of a project that is edited, scanned, and made anew."""

    def __init__(self, origin: Path, folder: Path, most: int) -> None:
        self._origin = origin
        self.root = folder / "project"
        self._paths = [path.relative_to(origin) for path in sorted(origin.rglob("*.py"))][:most]
        self._config = Config(root=self.root)
        self.scanned = False
        self.start_anew()

    def start_anew(self) -> None:
        for path in self.files():
            path.unlink()
        for path in self._paths:
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self._origin / path, target)
        (self.root / "pyproject.toml").write_text("[tool.graphsafe]\n")

    def files(self) -> list[Path]:
        return sorted(self.root.rglob("*.py"))

    def scan(self, cache: bool) -> Report:
        folder = self.root / CACHE if cache else None
        return api.scan_paths([self.root], self._config, confidence="possible", cache=folder, jobs=1)

    def read_files(self, report: Report) -> list[Path]:
        """Files that hold a finding, or a call that leads to one."""
        found = {finding.location.path for finding in report.findings}
        found |= {site.path for finding in report.findings for site in finding.call_chain}
        return [path for path in sorted({Path(name).resolve() for name in found}) if path.exists()]


def text_of(report: Report) -> str:
    return render(replace(report, created=""), "json")


def edit(project: Project, read: list[Path], draw: random.Random) -> str:
    """One edit that changes something; its kind and file."""
    while True:
        files = project.files()
        if draw.random() < 0.12:
            of_files = draw.choice(OF_FILES)
            before_it = {path: path.read_bytes() for path in files}
            of_files(project.root, files, draw)
            if {path: path.read_bytes() for path in project.files()} == before_it:
                continue
            return of_files.__name__
        there = [path for path in read if path.exists()]
        path = draw.choice(there if there and draw.random() < 0.7 else files)
        in_file = draw.choice(IN_FILES)
        try:
            text = Text(path)
            before = list(text.lines)
            in_file(text, draw)
        except (Unfit, IndexError):
            continue
        if text.lines != before:
            text.save()
            return f"{in_file.__name__} of {path.relative_to(project.root)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=100)
    given = parser.parse_args()
    if not any(given.folder.rglob("*.py")):
        parser.error(f"no Python files in {given.folder}")
    draw = random.Random(given.seed)
    edits: Counter[str] = Counter()
    quick: Counter[str] = Counter()
    broken = different = 0
    scans: list[bool] = []
    original = api._report

    def noted(*arguments: object) -> Report:
        scans.append(True)
        return original(*arguments)  # type: ignore[arg-type]

    began = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        project = Project(given.folder.resolve(), Path(name).resolve(), given.files)
        print(f"{len(project.files())} files, {len(project.scan(False).findings)} findings", flush=True)
        read: list[Path] = []
        for number in range(given.count):
            if number % IN_A_ROW == 0:
                project.start_anew()
                read = project.read_files(project.scan(True))
            what = edit(project, read, draw)
            kind = what.partition(" ")[0]
            scans.clear()
            api._report = noted
            found = project.scan(True)
            api._report = original
            quick[kind] += not scans
            expected = project.scan(False)
            edits[kind] += 1
            broken += any(finding.code == "GS900" for finding in expected.findings)
            if text_of(found) != text_of(expected):
                different += 1
                print(f"DIFFERENT after edit {number}, {what}", flush=True)
            if number % 250 == 249:
                print(f"{number + 1} edits, {different} reports differ", flush=True)
    print(f"{different} of {sum(edits.values())} reports differ; {broken} edits left a file that does not parse")
    for kind, count in sorted(edits.items()):
        print(f"{kind:15} {count:5}, without a scan {quick[kind]:5}")
    print(f"{time.process_time() - began:.0f} s of CPU")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
