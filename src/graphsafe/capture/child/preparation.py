"""Imports modules only once, in the process from which the children fork, if this makes no difference for any child.

A fork copies all memory, but only one thread: the one that forks. So imports are shared only if they left CUDA
untouched, started no process and no thread that a fork would lose, opened no file, and did not change the state of
torch's random numbers. Otherwise every child imports for itself.
"""

from __future__ import annotations

import ast
import ctypes
import hashlib
import importlib
import itertools
import os
import random
import sys
import threading
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch

from graphsafe.capture.child.state.generators import seed_host
from graphsafe.capture.child.targets import TargetError, load_module
from graphsafe.capture.device import open_device
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import Device
from graphsafe.capture.processes.descendants import has_children
from graphsafe.capture.processes.originals import decode, leave, read_text
from graphsafe.capture.shared.frames import absolute
from graphsafe.capture.shared.job import IMPORTS, Job, write_json
from graphsafe.report.probes.construct import Attempt

_NOT_INITIALIZED = 3
"The code of the error CUDA_ERROR_NOT_INITIALIZED."
_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_OWN = frozenset((_NVML, "CUDA_MODULE_LOADING"))
"""Environment variables that may change although the factory does not change them. This module sets the first. Torch
2.11 sets the second when it starts CUDA, and each child starts CUDA anyway."""
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_SHAREABLE_FILES = ("/dev/null", "/dev/urandom", "/dev/random", "/dev/nvidia")
_SHAREABLE_THREADS = ("jemalloc_bg_thd",)
"""Names of threads that a fork may lose. The allocator of pyarrow (which pandas, scikit-learn and transformers import)
supports forks: in the child it works without its thread (jemalloc, background_thread.c)."""


class NotShareable(Exception):
    """Raised if the imports must not be shared. Each child then runs them itself. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Prepared:
    where: str
    "The file or module of the target."
    module: Any
    device: Device | None
    "The simulated device, already entered. Each child enters a real device itself: CUDA does not survive a fork."
    random_state: tuple[Any, ...]
    "The random state of Python and of numpy after the import."


_prepared: Prepared | None = None
_entered = ExitStack()
"Context managers that are not exited before the process ends."


def prepared(job: Job) -> Prepared | None:
    """Return the preparation that this process inherited by its fork, if it fits the job, else None."""
    if _prepared is None or _prepared.where != job.where:
        return None
    return _prepared if _prepared.device is None or _prepared.device.name == job.device else None


def restore_random_state(ready: Prepared) -> None:
    """Restore the random state that the import left. The state has changed since then: `rich` draws random numbers, and
    every fork seeds Python again."""
    python, numpys = ready.random_state
    random.setstate(python)
    if numpys is not None:
        sys.modules["numpy"].random.set_state(numpys)


def prepare(job: Job) -> None:
    """Import the target's module for the children that will be forked from this process. Raises NotShareable."""
    global _prepared
    device: Device | None = None
    if job.device.startswith("sim"):
        device = open_device(job.device)
        _entered.enter_context(device.entered())
    attempts: list[Attempt] = []
    # Seed as a child does before its import. Each child seeds a real device itself.
    seed_host(job.first_seed)
    if device is None:
        torch.default_generator.manual_seed(job.first_seed)
    else:
        device.seed(job.first_seed)
    with _watched(device), nullcontext() if device is None else device.watch_captures(attempts.append):
        try:
            module = load_module(job.where)
        except TargetError as error:
            raise NotShareable(error.line) from None
    if attempts:
        raise NotShareable("it captures a graph when it is imported")
    _prepared = Prepared(job.where, module, device, _random_state())


def import_ahead(job: Job) -> None:
    """Run the imports at the beginning of the factory, for the children that will be forked from this process. Raises
    NotShareable."""
    global _prepared
    assert _prepared is not None
    imports = first_imports(_prepared.module, job.target.rpartition(":")[2])
    if not imports:
        return
    restore_random_state(_prepared)
    names = {name: getattr(_prepared.module, name, None) for name in ("__name__", "__package__")}
    with _watched(_prepared.device):
        try:
            for one in imports:
                exec(one, dict(names))
        except BaseException as error:
            raise NotShareable(f"{type(error).__name__} in an import of the factory") from None
    _prepared = replace(_prepared, random_state=_random_state())


def write_imports(folder: Path, before: Set[str]) -> None:
    """Write a file with the modules that the build child imported since `before`, if there are libraries to share."""
    modules = {name: _origin(name) for name in list(sys.modules) if name not in before}
    if any(map(_is_library, modules.values())):
        write_json(folder / IMPORTS, {"modules": modules, "surroundings": _surroundings(), "random": _random_digest()})


def follow(folder: Path) -> None:
    """Import the libraries that the build child imported while it built the target. Raises NotShareable.

    NotShareable is also raised if these imports load different modules here and in the build child, or leave the
    process in a different state. In both cases, the imports depend on work that the factory does before them.
    """
    assert _prepared is not None
    reported = decode(read_text(f"{folder}/{IMPORTS}"))
    origins: dict[str, str | None] = reported["modules"]
    before = frozenset(sys.modules)
    restore_random_state(_prepared)
    with _watched(_prepared.device):
        for name, origin in origins.items():
            if _is_library(origin) and name not in sys.modules:
                try:
                    importlib.import_module(name)
                except BaseException:
                    continue  # the build child got this module in another way, and the other children can do the same
    new = [name for name in list(sys.modules) if name not in before]
    different = [name for name in new if name not in origins or origins[name] != _origin(name)]
    if different:
        raise NotShareable(f"{different[0]} is not the module of the build child")
    changed = [name for name, value in _surroundings().items() if reported["surroundings"].get(name) != value]
    changed += [name for name in reported["surroundings"] if name not in _surroundings()]
    if changed:
        raise NotShareable(f"the factory changes {changed[0]}")
    if reported["random"] != _random_digest():
        raise NotShareable("the factory draws random numbers of Python or numpy")


@contextmanager
def _watched(device: Device | None) -> Iterator[None]:
    """Raise NotShareable if the code in this block leaves something that a fork does not preserve: a thread, a file or
    CUDA."""
    process = os.getpid()
    files, threads, drawn = _open_files(), threading.active_count(), _torch_state(device)
    try:
        with asking_without_cuda():
            yield
    finally:
        if os.getpid() != process:
            leave(0)  # the module has forked, and this process is the fork, which returned from the import
    if has_children():
        raise NotShareable("it starts a process")
    if _open_files() - files:
        raise NotShareable("it leaves a file or a connection open")
    if _torch_state(device) != drawn:
        raise NotShareable("it seeds torch or draws random numbers from it")
    if _cuda_started():
        raise NotShareable("it starts CUDA")
    # Count threads after the fork in `_cuda_started`, because some libraries (OpenBLAS) end their threads before a
    # fork.
    new = _thread_names()[threads:]
    if threading.active_count() > threads or new:
        raise NotShareable(f"it starts a thread ({new[-1]})" if new else "it starts a thread")


@contextmanager
def asking_without_cuda() -> Iterator[None]:
    """Let modules ask whether there is a GPU, without starting CUDA. Torch then asks only the driver's NVML library."""
    before = os.environ.get(_NVML)
    os.environ[_NVML] = "1"
    try:
        yield
    finally:
        os.environ.pop(_NVML, None) if before is None else os.environ.__setitem__(_NVML, before)


def _cuda_started() -> bool:
    if _library_started():
        return True
    refuses = getattr(torch._C, "_cuda_isInBadFork", None)
    if refuses is None:  # torch was built without CUDA
        return False
    # If this process has called the CUDA runtime, torch notices this in a forked child and refuses to start CUDA there.
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = int(refuses())
        finally:
            leave(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


def _library_started() -> bool:
    """Return whether any code has loaded and initialised the driver's library."""
    for line in read_text("/proc/self/maps").splitlines():
        path = line.partition("/")[2]
        if "libcuda.so" in path:
            return bool(ctypes.CDLL(f"/{path}").cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != _NOT_INITIALIZED)
    return False


def _thread_names() -> list[str]:
    """Return the names of this process's threads, oldest first, without the threads that a fork may lose."""
    names = []
    for number in sorted(map(int, os.listdir("/proc/self/task"))):
        with suppress(OSError):  # the thread has ended
            name = read_text(f"/proc/self/task/{number}/comm").strip()
            if name not in _SHAREABLE_THREADS:
                names.append(name)
    return names


def _open_files() -> set[str]:
    """Return the open files as number and name, without files that several processes can read independently."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if not name.startswith(_SHAREABLE_FILES):
            found.add(f"{number} {name}")
    return found


def _torch_state(device: Device | None) -> tuple[Any, ...]:
    with outside_modes():
        host = torch.default_generator.get_state().numpy().tobytes()
    return host, None if device is None else dict(device.random_states())


def _random_state() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    return random.getstate(), None if numpy is None else numpy.random.get_state()


def _random_digest() -> str:
    python, numpys = _random_state()
    plain = [part.tobytes() if hasattr(part, "tobytes") else part for part in numpys or ()]
    return hashlib.sha256(repr((python, plain)).encode()).hexdigest()


def _origin(name: str) -> str | None:
    try:
        return str(sys.modules[name].__spec__.origin)  # type: ignore[union-attr]
    except Exception:  # an entry of `sys.modules` may be any object
        return None


def _is_library(origin: str | None) -> bool:
    return origin is not None and any(site in origin for site in _SITES)


def _surroundings() -> dict[str, Any]:
    variables = {f"the environment variable {name}": value for name, value in os.environ.items() if name not in _OWN}
    digests = {name: hashlib.sha256(os.fsencode(value)).hexdigest() for name, value in variables.items()}
    return {**digests, "sys.path": [str(path) for path in sys.path], "the working folder": absolute("")}


def first_imports(module: Any, name: str) -> list[CodeType]:
    """Return the import statements at the beginning of the factory `name`, compiled. If the factory then calls a
    function of the same file with plain arguments, the imports at the beginning of that function follow.

    The list is empty if the module's functions were not compiled from this source.
    """
    try:
        with open(module.__file__, "rb") as file:
            statements = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError, TypeError, AttributeError):
        return []
    functions = {one.name: one for one in statements if isinstance(one, ast.FunctionDef)}
    found: list[ast.stmt] = []
    function = functions.pop(name, None)
    while function is not None and _is_source(function, module.__dict__.get(function.name)):
        body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
        imports = list(itertools.takewhile(lambda one: isinstance(one, (ast.Import, ast.ImportFrom)), body))
        found += imports
        called = _called(body[len(imports)]) if len(imports) < len(body) else None
        function = None if called is None else functions.pop(called, None)
    return [compile(ast.Module([one], []), module.__file__, "exec") for one in found]


def _is_source(node: ast.FunctionDef, function: Any) -> bool:
    """Return whether `node` defines the function and has no decorators. A call then runs the statements of `node`."""
    if node.decorator_list or not isinstance(function, FunctionType):
        return False
    return function.__code__.co_firstlineno == node.lineno


def _called(statement: ast.stmt) -> str | None:
    """Return the name of the function that a statement calls with plain arguments, or None."""
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return call.func.id if all(isinstance(one, (ast.Name, ast.Constant)) for one in arguments) else None
