"""The device of tensors that are made without `device=`. This is the host, unless other code makes another device the
default."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from graphsafe.scan.symbols.project_files import Files, outermost_package

_OTHER = rb"""(?!\s*["'](?:cpu|meta)\b)"""
_SET = re.compile(rb"\bset_default_device\(" + _OTHER + rb"""|\bset_default_tensor_type\(\s*(?:["']?torch\.)?cuda\.""")
_ENTERED = re.compile(rb"with (?:torch\.device\(" + _OTHER + rb"|[\w.]*device\s*[:,])")
"""Matches `with torch.device(…)` and `with device:`. In `with device:`, the object may also be a `torch.cuda.device`,
which does not change the default device. The pattern begins with fixed characters, which makes the search fast."""
_FOR_ENGINE = re.compile(rb"^(?:from|import) (?:vllm\.model_executor|sglang\.srt\.(?:layers|model_loader))\b", re.M)
"""Matches an import that shows that a file defines models for an engine. The model loaders of vLLM (0.33.0) and of
SGLang run the constructors of models inside a `with` block for the device."""
TESTS = frozenset(("test", "tests"))
_IMPORTED = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.M)


def default_device_covers(files: Files, path: str) -> tuple[bool, bool]:
    """Return whether tensors that this file makes without `device=` may be on a device. The first result is about the
    tensors of models, and the second one about all other tensors."""
    of_models, of_all = files.table("default-devices", lambda: _read(files))
    return path.startswith(of_models), path.startswith(of_all)


def default_device_in(data: bytes) -> tuple[bool, bool, Sequence[str]]:
    """Return whether a file sets a default device, and whether it enters a device. If it does either, also return the
    modules that it imports."""
    sets = b"set_default_" in data and _SET.search(data) is not None
    enters = b"device" in data and _ENTERED.search(data) is not None
    return sets, enters, [name.decode() for name in _IMPORTED.findall(data)] if sets or enters else ()


def _read(files: Files) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files, and the folders (with a final separator), in which tensors without `device=` may be made on a
    device.

    The first result is about models. It contains files where a default device is set, files where a device is entered
    around calls that make a model, and files with models that an engine loads. In these files, the device may apply to
    functions that make models: methods of modules outside steps, and functions that are not methods. The second result
    contains files where a default device is set, which may apply to any line of the file.
    """
    of_models, of_all, for_engines = set[str](), set[str](), set[str]()
    packages: dict[Path, Path | None] = {}
    for path in files.names:
        data = files.data(path) or b""
        sets, enters, imported = default_device_in(data)
        if (b"vllm." in data or b"sglang." in data) and _FOR_ENGINE.search(data) is not None:
            for_engines.add(path)
        if (sets or enters) and not _is_test(files, path):
            folder = Path(path).parent
            package = outermost_package(folder, packages)
            # Code in a package may affect any module of the package. A script affects only modules that it imports.
            reached = [path, *_beside(files, folder, imported)] if package is None else [f"{package}{os.sep}"]
            of_models.update(reached)
            if sets:
                of_all.update(reached if package is None else [f"{folder}{os.sep}"])
    covered = tuple(of_models)
    apart = [path for path in for_engines if not path.startswith(covered)]
    return (*covered, *apart), (*of_all,)


def _beside(files: Files, folder: Path, modules: Iterable[str]) -> Iterator[str]:
    """Yield the files of imported modules in or below the folder of a script. For a package, yield its folder."""
    for name in modules:
        for path in files.modules.get(name, files.modules.get(name.partition(".")[0], ())):
            if path.startswith(f"{folder}{os.sep}"):
                yield f"{Path(path).parent}{os.sep}" if files.names[path][1] else path


def _is_test(files: Files, path: str) -> bool:
    module, _ = files.names[path]
    *packages, name = module.split(".")
    return name.startswith("test_") or not TESTS.isdisjoint((*packages, name, Path(path).parent.name))
