"""Tells whether anything in a project names a definition: code, a configuration, a script or a document.

A definition is a function or class at the top of a file. An import alone is not enough to name a definition, except in
the `__init__.py` of a package near the top of the project, or of a package that code imports as a whole. Tests are
ignored, because they are not steps. A definition is also unnamed if only unnamed definitions name it. Names are
compared as text. So a document that names one of two definitions with the same name has to name the definition's folder
too.

The search works on text, because any file may name a definition, but only files that may contain a root have an index.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from graphsafe.scan.roots.candidate_files import NEAR_TOP, depth_of
from graphsafe.scan.roots.loop_roots import IS_RUN
from graphsafe.scan.sources.documents import Documents, any_contains
from graphsafe.scan.sources.node_memo import memoize_method
from graphsafe.scan.symbols.project_files import Files

Definition = tuple[str, str]
"The path of a file, and the name of a function or class at its top."
_NOBODY: Definition = "", ""
"A value that stands for the end of a search."
_TOP_LINE = re.compile(rb"^(?:(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|(@)|[^\s#)\]}])", re.M)
"Matches the beginning of a statement at the top of a file: a definition, a decorator, or any other statement."
_REST = rb"(?:[^\n\\]|\\\n)*"
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]*(?:\([^)]{0,10000}\)|%s)|import[ \t]%s)" % (_REST, _REST), re.M
)
"Matches an import, also over several lines."
_FROM = re.compile(rb"[ \t]*from[ \t]+([\w.]+)[ \t]+import\b")
"Matches the part of an import before the names."
_AS_A_WHOLE = rb"\bNAME[ \t]+import[ \t]*\(?[ \t]*\*|^[ \t]*import\b.*\bNAME\b|\bimport\b[^.]*\bNAME\b"
"Matches an import of the package NAME as a whole: `from shop.layers import *`, `from shop import layers`."
_EXPORTS = re.compile(rb"^__all__\b[^\n]*?=[ \t]*(?:[\[(][^\])]*)?", re.M)
"Matches a list of exports, up to its end."
_IMPORTS_BY_NAME = re.compile(
    rb"\b(?:import_module|__import__|iter_modules|walk_packages|spec_from_file_location)\((?!\s*[\"'][\w.]+[\"']\s*[,)])"
)
'Matches an import of a module whose name the code computes: `import_module(f"models.{name}")`.'
_LISTS = re.compile(rb"\b(?:glob|listdir|iterdir|scandir)\(")
"Matches calls that list the files of a folder. In an `__init__.py`, they find the modules to import."
_OF_TORCH = re.compile(rb"(?<![\w.])(?:torch|nn|optim|F)\.(?:\w+\.)*\Z")
"Matches the code before a name of PyTorch: `torch.optim.` before `Optimizer`."
_LIBRARIES = ("torch", "torchvision", "transformers", "diffusers")
_LONGEST_PREFIX = 60
_IN_TESTS = re.compile(r"(^|/)((unit_?)?tests?|testing)/|(^|/)(test_\w+|\w+_test|conftest)\.\w+$")
_IS_TEST = re.compile(r"_*test_\w+")
_STRING = re.compile(rb"""["']([\w./-]+)["']""")
_MOST_STRINGS = 8
"At most this many strings in a definition's decorators count as names under which a registry knows the definition."
_MOST_BEFORE = 500
"The number of bytes before a name that are searched for the beginning of a comment."


@dataclass(frozen=True, slots=True)
class _Layout:
    """Positions in a file, in bytes from its beginning."""

    starts: Sequence[int]
    "The statements at the top of the file."
    names: Sequence[bytes]
    "The name that each of these statements defines: `@` for a decorator, nothing for other statements."
    imports: Sequence[tuple[int, int]]
    exports: Sequence[tuple[int, int]]


class Namings:
    """Tells whether anything in the project names a definition. Results are memoised."""

    def __init__(self, files: Files, documents: Documents) -> None:
        self._files = files
        self._documents = documents
        self._named: dict[Definition, bool] = {}
        top = os.path.commonpath(files.names) if files.names else ""
        self._naming = [path for path in files.names if not _IN_TESTS.search(os.path.relpath(path, top))]
        self._top = top
        self._by_folder: dict[str, dict[str, None]] = {}
        for path in self._naming:
            self._by_folder.setdefault(os.path.dirname(path), {})[path] = None

    def is_named(self, path: str, name: str) -> bool:
        """Return whether code that is itself named, or any document, names a definition."""
        asked = path, name
        if asked in self._named:
            return self._named[asked]
        if self._is_imported_by_name(os.path.dirname(path)):
            return True
        if self._is_replaced(name):
            return False
        # `way` is a chain of definitions, each of which names the one before it. The search is depth first, because
        # finding all definitions that name one definition would read the whole project.
        way = [(asked, self._users(*asked))]
        seen = {asked}
        while way:
            user = next(way[-1][1], _NOBODY)
            if user is None or self._named.get(user, False):
                self._named.update((one, True) for one, _ in way)
                return True
            if user == _NOBODY:
                way.pop()
            elif user not in seen and user not in self._named:
                seen.add(user)
                way.append((user, self._users(*user)))
        self._named.update(dict.fromkeys(seen, False))
        return False

    @memoize_method
    def _is_replaced(self, name: str) -> bool:
        """Return whether code puts another class in the place of a class: `modeling.MoeBlock = OffloadedBlock`."""
        word = name.encode()
        if not name[:1].isupper():
            return False  # `args.train = …` replaces no function
        other = rb"(?![\w.]*\b%s\b)(?:\w+\.)*[A-Z]\w*\s*\)?[ \t]*(?:#|$)" % word
        puts = re.compile(rb"(?<![\w.])(?!self\b|cls\b)\w[\w.]*\.%s[ \t]*=[ \t]*\(?\s*%s" % (word, other), re.M)
        return any_contains((self._files.data(path) or b"" for path in self._naming), puts, (b"." + word,))

    @memoize_method
    def _is_module_named(self, path: str) -> bool:
        """Return whether other code or a document names a module, or whether the module is a package or a script."""
        stem = os.path.basename(path).removesuffix(".py").encode()
        if stem == b"__init__" or IS_RUN in (self._files.data(path) or b""):
            return True
        named = re.compile(rb"(?<![\w-])%s(?![\w-])" % re.escape(stem))
        others = (self._files.data(other) or b"" for other in self._naming if other != path)
        return any_contains(others, named, (stem,)) or self._documents.any_contains(named, (stem,))

    @memoize_method
    def _is_imported_by_name(self, folder: str) -> bool:
        """Return whether code imports the modules of a folder under names that it computes. This code is in the
        `__init__.py` of the folder, or names the folder: `import_module("models." + name)`."""
        named = re.compile(rb"[\"'](?:[\w.]*[./])?%s[./\"']" % re.escape(os.path.basename(folder).encode()))
        init = os.path.join(folder, "__init__.py")
        if _LISTS.search(self._files.data(init) or b"" if init in self._naming else b"") is not None:
            return True
        return any(path == init or named.search(self._files.data(path) or b"") for path in self._importing_by_name())

    @memoize_method
    def _importing_by_name(self) -> Sequence[str]:
        return [path for path in self._naming if _IMPORTS_BY_NAME.search(self._files.data(path) or b"")]

    @memoize_method
    def is_called(self, method: str) -> bool:
        """Return whether any code or document names a method, apart from its definitions."""
        word = method.encode()
        named = re.compile(rb"(?<!def )(?<![\w-])%s(?![\w-])" % word)
        contents = (self._files.data(path) or b"" for path in self._naming)
        return any_contains(contents, named, (word,)) or self._documents.any_contains(named, (word,))

    def users_of(self, path: str, name: str) -> Iterator[str | None]:
        """Yield the functions that name a function or class of a file. Methods of the class are left out. Functions of
        the same name are left out too, because they may only pass a call on. Yield None for code outside functions, and
        for a constructor that stores the function without calling it: anything may call it later."""
        word = name.encode()
        for other in self._nearest_first(path):
            data = self._files.data(other) or b""
            for at in self._mentions(other, data, word) if word in data else ():
                file, line = self._files.index(other), data.count(b"\n", 0, at) + 1
                around = [facts.name for facts in file.functions.values() if facts.holds(line)] if file else []
                if not any(name in one.split(".") for one in around):
                    is_called = data.startswith(b"(", at + len(word))
                    is_stored = bool(around) and around[-1].endswith(".__init__") and not is_called
                    yield f"{other}::{around[-1]}" if around and not is_stored else None

    def _mentions(self, path: str, data: bytes, word: bytes) -> Iterator[int]:
        """Yield the places that name a function or class, except comments, imports and the definition of a class."""
        for match in _whole((word,)).finditer(data):
            at = match.start()
            is_code = not _is_comment(data, at) and not _within(at, self._layout(path).imports)
            if is_code and not data.endswith(b"class ", 0, at):
                yield at

    def _users(self, path: str, name: str) -> Iterator[Definition | None]:
        """Yield the definitions that name this one. Yield None if something else names it: the top level of a file, an
        export or a document."""
        words = {name.encode(), *self._registered_as(path, name)}
        is_another_used = False
        """Whether code imports a definition of the same name from another file. A document that uses the name may then
        refer to the other definition."""
        # If nothing names the module, equal names in other files refer to other definitions.
        is_alone = not self._is_module_named(path)
        for other in self._nearest_first(path):
            data = self._files.data(other) or b""
            if any(word in data for word in words):
                sources = [*self._sources(other, data, (path, name))]
                imports = self._layout(other).imports
                is_another_used = is_another_used or any(one and _within(at, imports) for at, one in sources)
                for user in (
                    self._users_in(other, data, words, (path, name), sources) if other == path or not is_alone else ()
                ):
                    if user != (path, name) and (user is None or _IS_TEST.fullmatch(user[1]) is None):
                        yield user
        if is_another_used or (is_alone and self._is_defined_twice(name)):
            place = path.removesuffix(".py").encode().split(os.sep.encode())[-2:]
            words = {b"/".join(place), b".".join(place)}
        if self._documents.any_contains(_whole(words), words):
            yield None

    def _is_defined_twice(self, name: str) -> bool:
        word = name.encode()
        return (
            sum(word in (self._files.data(one) or b"") and word in self._layout(one).names for one in self._naming) > 1
        )

    def _users_in(
        self, path: str, data: bytes, words: Set[bytes], asked: Definition, sources: Sequence[tuple[int, bool]]
    ) -> Iterator[Definition | None]:
        layout = self._layout(path)
        waiting, seen = [*words], {*words}
        while waiting:
            word = waiting.pop()
            for match in _whole((word,)).finditer(data):
                at = match.start()
                if _is_comment(data, at) or (word == asked[1].encode() and self._is_another(path, at, data, sources)):
                    continue
                if _within(at, layout.exports):
                    yield None
                elif not _within(at, layout.imports):
                    yield self._around(path, at)
                elif os.path.basename(path) == "__init__.py" and self._exports_to_users(path):
                    yield None
                elif (alias := re.compile(rb"\s+as\s+(\w+)").match(data, match.end())) and alias[1] not in seen:
                    seen.add(alias[1])
                    waiting.append(alias[1])

    @memoize_method
    def _exports_to_users(self, init: str) -> bool:
        """Return whether users or other code may use whatever an `__init__.py` imports. This is so if the package is
        near the top of the project, or if other code imports it as a whole: `from shop.layers import *`, `from shop
        import layers`."""
        folder = os.path.dirname(init)
        name = os.path.basename(folder).encode()
        whole = re.compile(_AS_A_WHOLE.replace(b"NAME", re.escape(name)), re.M)
        return depth_of(init, self._top) <= NEAR_TOP or any(
            whole.search(data, start, end) is not None
            for other in self._naming
            if name in (data := self._files.data(other) or b"")
            for start, end in self._layout(other).imports
        )

    def _sources(self, path: str, data: bytes, asked: Definition) -> Iterator[tuple[int, bool]]:
        """Yield the places that bind a name in a file. For each place, also tell whether it binds the name to another
        definition. Such a definition is in the file itself, or is imported from PyTorch or from another file of the
        project that defines the name."""
        name = asked[1].encode()
        layout, whole = self._layout(path), _whole((name,))
        for at, one in zip(layout.starts, layout.names, strict=True):
            if one == name:
                yield at, path != asked[0]
        for start, end in layout.imports:
            found = _FROM.match(data, start, end)
            if found is not None and whole.search(data, found.end(), end) is not None:
                yield start, self._is_in_another_file(path, found[1].decode(), asked)

    def _is_in_another_file(self, path: str, module: str, asked: Definition) -> bool:
        names = module.lstrip(".")
        folder = os.path.dirname(path) if module != names else ""
        for _ in range(len(module) - len(names) - 1):
            folder = os.path.dirname(folder)
        ending = f"{folder}{os.sep}{names.replace('.', os.sep)}.py"
        files = [one for one in self._naming if one.endswith(ending)]
        if not files and module == names and names.partition(".")[0] in _LIBRARIES:
            return True
        defines = any(asked[1].encode() in self._layout(one).names for one in files)
        return asked[0] not in files and defines

    def _is_another(self, path: str, at: int, data: bytes, sources: Sequence[tuple[int, bool]]) -> bool:
        """Return whether a name at a place refers to another definition. Imports in the function around the place take
        precedence over imports at the top of the file."""
        if data[at - 1 : at] == b".":
            return _OF_TORCH.search(data, max(0, at - _LONGEST_PREFIX), at) is not None
        if data[at - 1 : at] in (b'"', b"'", b"`"):
            return False
        starts = self._layout(path).starts
        number = bisect_right(starts, at)
        near = [other for start, other in sources if bisect_right(starts, start) == number]
        top = [other for start, other in sources if start in starts or data[start - 1 : start] == b"\n"]
        found = near or top
        return bool(found) and all(found)

    def _around(self, path: str, at: int) -> Definition | None:
        """Return the definition around a position in a file, or None at the top of the file."""
        layout = self._layout(path)
        names = layout.names
        number = bisect_right(layout.starts, at) - 1
        while 0 <= number < len(names) and names[number] == b"@":
            number += 1
        found = names[number] if 0 <= number < len(names) else b""
        return (path, found.decode()) if found else None

    @memoize_method
    def _layout(self, path: str) -> _Layout:
        data = self._files.data(path) or b""
        found = [*_TOP_LINE.finditer(data)]
        return _Layout(
            [match.start() for match in found],
            [match[1] or match[2] or b"" for match in found],
            [match.span() for match in _IMPORT.finditer(data)],
            [match.span() for match in _EXPORTS.finditer(data)],
        )

    def _registered_as(self, path: str, name: str) -> Iterator[bytes]:
        """Yield the strings in the decorators of a definition: a registry may know the definition by such a name."""
        layout = self._layout(path)
        names, data = layout.names, self._files.data(path) or b""
        for number, each in enumerate(names):
            if each == name.encode():
                first = number
                while first and names[first - 1] == b"@":
                    first -= 1
                yield from _STRING.findall(data[layout.starts[first] : layout.starts[number]])[:_MOST_STRINGS]

    def _nearest_first(self, path: str) -> Iterator[str]:
        """Yield all files in which a definition may be named. Files in the same folder come first, because most
        definitions are used there."""
        near = self._by_folder.get(os.path.dirname(path), ())
        yield from near
        yield from (other for other in self._naming if other not in near)


def _whole(words: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w-])(?:%s)(?![\w-])" % b"|".join(map(re.escape, sorted(words))))


def _is_comment(data: bytes, at: int) -> bool:
    before = max(0, at - _MOST_BEFORE)
    line = data[max(data.rfind(b"\n", before, at) + 1, before) : at]
    return b"#" in line and b'"' not in line and b"'" not in line


def _within(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    number = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return number >= 0 and at < spans[number][1]
