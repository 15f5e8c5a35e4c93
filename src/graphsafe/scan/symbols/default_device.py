"""Where tensors without `device=` are made: on the host, unless code elsewhere makes another device the default."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from graphsafe.scan.symbols.project_files import Files, outermost_package

_OTHER = rb"""(?!\s*["'](?:cpu|meta)\b)"""
_SET = re.compile(rb"\bset_default_device\(" + _OTHER + rb"""|\bset_default_tensor_type\(\s*(?:["']?torch\.)?cuda\.""")
_ENTERED = re.compile(rb"with (?:torch\.device\(" + _OTHER + rb"|[\w.]*device\s*[:,])")
"`with device:` may also mean the current device, which decides nothing here. Plain text at its start makes it fast."
TESTS = frozenset(("test", "tests"))
_IMPORTED = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.M)


@dataclass(frozen=True, slots=True)
class DefaultDevices:
    """Files, and folders with a separator at the end, in which tensors without `device=` may be made on a device."""

    of_models: tuple[str, ...] = ()
    "A default device is set there, or a device entered around calls, as one does to make a model."
    of_all: tuple[str, ...] = ()
    "It is set there: it may hold for any line."

    def cover(self, path: str) -> tuple[bool, bool]:
        """Whether each of the two covers a file."""
        return path.startswith(self.of_models), path.startswith(self.of_all)


def may_be_on_device(files: Files, path: str, makes_model: bool) -> bool:
    """Whether a tensor that the code of a file makes without `device=` may be on a device.

    `makes_model`: in what may be called to make a model, and in no step: a module's method, a function of no class.
    """
    files.uses.note("default-device", path)
    of_models, of_all = default_devices(files).cover(path)
    return of_all or (of_models and makes_model)


def default_devices(files: Files) -> DefaultDevices:
    return files.table("default-devices", lambda: _read(files))


def sets_default(data: bytes) -> bool:
    return b"set_default_" in data and _SET.search(data) is not None


def enters_device(data: bytes) -> bool:
    return b"device" in data and _ENTERED.search(data) is not None


def imported_by(data: bytes) -> list[str]:
    """The modules that a text imports, by their dotted names."""
    return [name.decode() for name in _IMPORTED.findall(data)]


def _read(files: Files) -> DefaultDevices:
    of_models, of_all = set[str](), set[str]()
    packages: dict[Path, Path | None] = {}
    for path in files.paths:
        data = files.data(path) or b""
        is_set = sets_default(data)
        if (is_set or enters_device(data)) and not _is_test(files, path):
            folder = Path(path).parent
            package = outermost_package(folder, packages)
            # A package may reach any of its modules; a script those that it imports.
            reached = [path, *_beside(files, folder, imported_by(data))] if package is None else [f"{package}{os.sep}"]
            of_models.update(reached)
            if is_set:
                of_all.update(reached if package is None else [f"{folder}{os.sep}"])
    return DefaultDevices(tuple(sorted(of_models)), tuple(sorted(of_all)))


def _beside(files: Files, folder: Path, modules: Iterable[str]) -> Iterator[str]:
    """Modules at or below the folder of a script, and all files of the packages among them."""
    for name in modules:
        for path in files.modules.get(name, files.modules.get(name.partition(".")[0], ())):
            if path.startswith(f"{folder}{os.sep}"):
                yield f"{Path(path).parent}{os.sep}" if files.names[path][1] else path


def _is_test(files: Files, path: str) -> bool:
    module, _ = files.names[path]
    *packages, name = module.split(".")
    return name.startswith("test_") or not TESTS.isdisjoint((*packages, name, Path(path).parent.name))
