"""Writes a step or a factory to disk if it exists only as an object, so that other processes can build it.

An object that cannot be imported (it is from `__main__`, a notebook cell or a closure) is pickled by value. Tensors
that are views of each other stay views. The bytes of tensors are copied through the host, so the calling process may
already have used its GPU.
"""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from graphsafe.capture.step import Step
from graphsafe.errors import RequestError
from graphsafe.files import from_here

if TYPE_CHECKING:
    import torch

_STUB = """from functools import partial

from graphsafe.capture.child.given import build_given

build = partial(build_given, __file__)
"""
"The stub defines no function, so that no error names a line of this temporary file."
_OBJECT, _STORAGES = "given.pickle", "given.pt"
_MOST_LINES = 100_000


@dataclass(frozen=True, slots=True)
class WrittenTarget:
    """A target on disk; it exists until the context manager `written` exits."""

    target: str
    shown: str
    device: str | None
    "The device of the target's tensors; None if all are on the host."
    is_on_host: bool
    "Whether the target has tensors and all of them are on the host."


@contextmanager
def written(what: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> Iterator[WrittenTarget]:
    """Write a callable or a module with its arguments. A function without arguments is taken for a factory and is
    written as a factory. Raises RequestError."""
    if importlib.util.find_spec("cloudpickle") is None or importlib.util.find_spec("torch") is None:
        raise RequestError('capturing an object needs PyTorch and cloudpickle: pip install "graphsafe[capture]"')
    if isinstance(what, Step):
        raise RequestError("capture: a Step is what a factory returns; give the factory, `lambda device: Step(...)`")
    if not callable(what):
        raise RequestError(f"capture: expected a target's name, a function or a module, not a {type(what).__name__}")
    if args is not None and not isinstance(args, Sequence):
        raise RequestError(f"capture: args is a tuple of all arguments, (x,) for one; got a {type(args).__name__}")
    import torch

    is_alone = args is None and kwargs is None
    answer = what if is_alone else (what, tuple(args or ()), dict(kwargs or {}))
    is_factory = is_alone and not isinstance(what, torch.nn.Module)
    header = {"path": sys.path, "sources": _cells(), "is_factory": is_factory}
    with tempfile.TemporaryDirectory(prefix="graphsafe-given-") as name:
        folder = Path(name)
        with (folder / _OBJECT).open("wb") as file:
            pickle.dump(header, file)
            places = _pickled(answer, file, folder, what)
        (folder / "target.py").write_text(_STUB, encoding="utf-8")
        devices = sorted({place for place in places if place is not None})
        target = f"{folder / 'target.py'}:build"
        yield WrittenTarget(target, _name_of(what), next(iter(devices), None), bool(places) and not devices)


def _pickled(answer: Any, file: BinaryIO, folder: Path, what: Any) -> list[str | None]:
    """Write the object to `file`, and its storages to another file in `folder`. Return the device of each storage, None
    for the host."""
    import cloudpickle
    import torch

    storages: dict[int, tuple[torch.UntypedStorage, int]] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if not isinstance(value, CodeType):
                return super().reducer_override(value)
            # Since version 3.1.3 cloudpickle leaves out the file name of a code object. Findings need this name.
            return code_of_file, (*self.dispatch_table[CodeType](value), value.co_filename)

        def persistent_id(self, value: Any) -> Any:
            if not isinstance(value, (torch.storage.TypedStorage, torch.UntypedStorage)):
                return None
            dtype: torch.dtype | None = None
            untyped: Any = value
            if isinstance(value, torch.storage.TypedStorage):
                dtype, untyped = value.dtype, value._untyped_storage
            _, number = storages.setdefault(untyped._cdata, (untyped, len(storages)))
            return "storage", number, dtype

    with _unwatched(), ExitStack() as stack:
        for module in _not_importable(what):
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            Pickler(file).dump(answer)
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            raise RequestError(
                f"{_name_of(what)} cannot be sent to another process: {type(error).__name__}: {text}; "
                "capture a factory that builds it"
            ) from error
        places = [_place_of(storage) for storage, _ in storages.values()]
        on_host: list[Any] = [storage.cpu() for storage, _ in storages.values()]  # type: ignore[no-untyped-call]
        values = [torch.empty(0, dtype=torch.uint8).set_(storage) for storage in on_host]
        torch.save({"values": values, "places": places}, folder / _STORAGES)
    return places


def code_of_file(make: Callable[..., CodeType], parts: tuple[Any, ...], file: str) -> CodeType:
    """Build a code object, with the name of the file that it was compiled from. The unpickler calls this function."""
    return make(*parts).replace(co_filename=file)


@contextmanager
def _unwatched() -> Iterator[None]:
    """If this process has entered a simulated device, keep it from counting graphsafe's own tensor work as the
    user's."""
    worlds = sys.modules.get("graphsafe.capture.device.sim.world")
    world = None if worlds is None else worlds.active()
    with ExitStack() as stack:
        if world is not None:
            stack.enter_context(world.unseen())
        yield


def _place_of(storage: torch.UntypedStorage) -> str | None:
    if storage.device.type == "cuda":
        return f"cuda:{storage.device.index}"
    tag = getattr(storage, "_graphsafe_tag", None)
    return None if tag is None else f"sim:{tag.index}"


def _not_importable(what: Any) -> Iterator[ModuleType]:
    """Yield the object's module if a new process could not import the module by its name."""
    module = sys.modules.get(getattr(what, "__module__", None) or type(what).__module__)
    if module is None or module.__name__ == "__main__" or not str(getattr(module, "__file__", "")).endswith(".py"):
        return
    parts = module.__name__.split(".")
    files = [file for entry in sys.path for file in (Path(entry, *parts, "__init__.py"), Path(entry, *parts))]
    there = next((file for file in files if file.is_file() or file.with_suffix(".py").is_file()), None)
    if there is None or there.with_suffix(".py").resolve() != Path(str(module.__file__)).resolve():
        yield module


def _cells() -> dict[str, list[str]]:
    """Return source code that was not read from a file (a notebook's cells), as file name -> lines. Python made up
    these file names."""
    return {
        name: list(entry[2])
        for name, entry in list(linecache.cache.items())
        if len(entry) == 4 and not os.path.exists(name) and len(entry[2]) <= _MOST_LINES
    }


def _name_of(what: Any) -> str:
    """Return the object's name for reports: `model.py:build` or `Decoder`."""
    name = getattr(what, "__qualname__", None)
    if name is None:
        return type(what).__qualname__
    code = getattr(inspect.unwrap(what), "__code__", None)
    return name if code is None else f"{from_here(code.co_filename)}:{name.replace('<locals>.', '')}"
