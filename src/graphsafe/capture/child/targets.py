"""Turns `FILE.py:FACTORY` into a subject that can be stepped. Only for children, because it imports the user's code."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from graphsafe.capture.child.entropy import seeded_entropy
from graphsafe.capture.processes.originals import leave, process_id
from graphsafe.capture.shared.frames import absolute, message_of, root_error, traceback_frames
from graphsafe.capture.shared.job import InputSpec
from graphsafe.capture.step import Step
from graphsafe.errors import nearest
from graphsafe.files import from_here, import_folder
from graphsafe.report.model import CallSite

_NOTHING = object()
_NEXT_STEPS: Mapping[str, str] = {
    "process group has not been initialized": "; --nproc 2 runs the target in two ranks of a group",
    "initialize the default process group twice": "; the ranks of --nproc have a group already: ask "
    "`torch.distributed.is_initialized()` first",
}
"""Part of an error's message -> the advice that is appended to the message, because the message does not mention
graphsafe's options."""
Stage = Literal["import", "build", "step"]


class TargetError(Exception):
    """Raised if the user's code fails in one of the stages and no capture is the cause. `line` describes the error for
    stderr."""

    def __init__(self, stage: Stage, line: str) -> None:
        super().__init__(line)
        self.stage = stage
        self.line = line


@dataclass(frozen=True)
class Subject:
    """A built target."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    refresh: Callable[[tuple[Any, ...], Mapping[str, Any], int], Any] | None = None
    reset: Callable[[], Any] | None = None
    events: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    "Events by name, in the order in which they are fired."
    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    "The ranges that the user gave with `--input`, by the input's path (spelled as in `state.inputs_of`)."

    def __call__(self) -> Any:
        return self.fn(*self.args, **self.kwargs)


@contextmanager
def users_code(stage: Stage, doing: str, written: CallSite | None = None) -> Iterator[None]:
    """Turn any error of the user's code, `sys.exit()` included, into a TargetError that names the line of the error. If
    no line of the user's code ran, the TargetError names the place `written`.

    If the user's code forks this process, the forked copy exits when it returns from that code. Otherwise the copy
    would continue graphsafe's work.
    """
    process = process_id()
    try:
        yield
    except TargetError:
        raise
    except BaseException as error:
        raise TargetError(stage, f"{doing}: {describe(error, written)}") from error
    finally:
        if process_id() != process:
            leave(0)


def describe(error: BaseException, written: CallSite | None = None) -> str:
    """Describe the first error of a chain: `ValueError: no such head (model.py:12)`. If no line of the user's code is
    in its traceback, `written` is the place."""
    root, _ = root_error(error)
    text = " ".join(message_of(root).split())
    frames, _ = traceback_frames(root.__traceback__)
    at = frames[-1] if frames else written
    where = f" ({from_here(at.path)}:{at.line})" if at is not None else ""
    if isinstance(root, SyntaxError) and root.filename:
        where = f" ({from_here(root.filename)}:{root.lineno})"
        text = str(root.msg)
    todo = next((step for known, step in _NEXT_STEPS.items() if known in text), "")
    return f"{type(root).__name__}{f': {text[:300]}' if text else ''}{where}{todo}"


def load_module(where: str) -> Any:
    """Import the file or module of a target. Raises TargetError."""
    with users_code("import", f"cannot import {where}"), seeded_entropy("import"):
        return _import_file(Path(where)) if where.endswith(".py") else _import_module(where)


def find_factory(module: Any, target: str) -> Callable[..., Any]:
    """Return a target's factory in its module. Raises TargetError."""
    where, _, name = target.rpartition(":")
    found: Any = module
    for part in name.split("."):
        holder = found
        with users_code("import", f"cannot look up {name} in {where}"):
            found = getattr(found, part, _NOTHING)
        if found is _NOTHING:
            callables = [other for other in dir(holder) if callable(getattr(holder, other, None))]
            raise TargetError("import", f"{where} has no {name}{nearest(part, callables)}")
    if not callable(found):
        raise TargetError("import", f"{target} is {kind_of(found)}, not a function that builds the step")
    return found  # type: ignore[no-any-return]


def build(
    factory: Callable[..., Any], device: torch.device, axes: Mapping[str, Any], inputs: tuple[InputSpec, ...]
) -> Subject:
    """Call the factory and make a subject from its result. Raises TargetError."""
    _check_axes(factory, axes)
    arguments = (device,) if takes_device(factory, axes) else ()
    with users_code("build", "the factory failed"), seeded_entropy("build"):
        answer = factory(*arguments, **axes)
    with users_code("build", "what the factory returned cannot be read"):
        return subject_of(answer, inputs, device)


def _check_axes(factory: Callable[..., Any], axes: Mapping[str, Any]) -> None:
    """Raise TargetError if the factory has no parameter for an axis."""
    parameters = _parameters(factory)
    if parameters is None or any(one.kind is one.VAR_KEYWORD for one in parameters):
        return
    names = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    for axis in axes:
        if axis not in names:
            hint = nearest(axis, names)
            raise TargetError("build", f"bucket axis {axis}: the factory has no parameter of this name{hint}")


def _parameters(factory: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(factory).parameters.values())
    except Exception:  # the user's callable has a broken signature
        return None


def takes_device(factory: Callable[..., Any], axes: Mapping[str, Any] | tuple[str, ...] = ()) -> bool:
    """Return whether the factory's first parameter is the device: it is required, or named or annotated as a device."""
    parameters = _parameters(factory)
    if parameters is None:
        return True
    first = next((p for p in parameters if p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD), None)
    if first is None or first.name in axes:
        return False
    required = first.default is first.empty
    return required or first.name.startswith("dev") or "device" in str(first.annotation)


def subject_of(answer: Any, inputs: tuple[InputSpec, ...], device: torch.device) -> Subject:
    if issubclass(type(answer), Step):
        _check_parts(answer)
        # A program calls `reset` between sequences of replays, so it is an event too.
        events = {**({"reset": answer.reset} if answer.reset is not None else {}), **answer.events}
        return _checked(
            Subject(answer.fn, tuple(answer.args), dict(answer.kwargs), answer.refresh, answer.reset, events), inputs
        )
    if issubclass(type(answer), torch.nn.Module):
        if inputs:
            return _from_specs(answer, inputs, device)
        example = getattr(answer, "example_inputs", None)
        if isinstance(example, (tuple, list)):
            return _checked(Subject(answer, tuple(example), {}), ())
        raise TargetError(
            "build",
            f"the factory returned a module ({type(answer).__name__}) without example_inputs: "
            "return (module, args), or say --input name:dtype[shape]",
        )
    if isinstance(answer, tuple) and len(answer) in (2, 3) and isinstance(answer[1], (tuple, list)):
        kwargs = answer[2] if len(answer) == 3 else {}
        if isinstance(kwargs, Mapping):
            return _checked(Subject(answer[0], tuple(answer[1]), dict(kwargs)), inputs)
    raise TargetError(
        "build",
        f"the factory returned {kind_of(answer)}, not (callable, args), (callable, args, kwargs), "
        "a graphsafe.Step or an nn.Module",
    )


def _checked(subject: Subject, inputs: tuple[InputSpec, ...]) -> Subject:
    if not callable(subject.fn):
        raise TargetError("build", f"the factory's step is {kind_of(subject.fn)}, which cannot be called")
    if inputs:
        raise TargetError(
            "build", "--input is for a factory that returns an nn.Module alone; this one returns its own inputs"
        )
    return subject


def _check_parts(step: Step) -> None:
    """Raise TargetError if a part of a Step has the wrong type."""
    if not isinstance(step.args, (tuple, list)) or not isinstance(step.kwargs, Mapping):
        given = f"{kind_of(step.args)} and {kind_of(step.kwargs)}"
        raise TargetError("build", f"the Step's args and kwargs are {given}, not a tuple and a dictionary")
    if not isinstance(step.events, Mapping):
        raise TargetError(
            "build", f"the Step's events are {kind_of(step.events)}, not a dictionary of functions by name"
        )
    called = {"refresh": step.refresh, "reset": step.reset}
    called = {name: part for name, part in called.items() if part is not None}
    for name, part in {**called, **{f"event {name!r}": event for name, event in step.events.items()}}.items():
        if not callable(part):
            raise TargetError("build", f"the Step's {name} cannot be called: it has the type {type(part).__name__}")


def kind_of(value: Any) -> str:
    """Return the type of a value in words: `an int`, `None`."""
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in value[:4]) or 'nothing'}"
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _from_specs(module: Any, inputs: tuple[InputSpec, ...], device: torch.device) -> Subject:
    """Return a subject with the inputs that `--input` describes. The inputs are drawn on the host, because the device's
    generator must not advance."""
    generator = torch.Generator().manual_seed(0)
    kwargs: dict[str, Any] = {}
    bounds: dict[str, tuple[float | None, float | None]] = {}
    for spec in inputs:
        dtype = getattr(torch, spec.dtype)
        low, high = spec.low, spec.high
        if dtype.is_floating_point:
            values = torch.randn(spec.shape, generator=generator)
            if low is not None and high is not None:
                values = torch.rand(spec.shape, generator=generator) * (high - low) + low
        else:
            first, last = (0, 1) if low is None or high is None else (int(low), int(high))
            values = torch.randint(first, last + 1, spec.shape, generator=generator)
        kwargs[spec.name] = values.to(dtype).to(device)
        bounds[f"kwargs[{spec.name!r}]"] = (low, high)
    return Subject(module, (), kwargs, bounds=bounds)


def _import_module(name: str) -> Any:
    here = absolute("")
    if here and here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def _import_file(path: Path) -> Any:
    path = path.resolve()
    if not path.is_file():
        raise TargetError("import", f"no such file: {from_here(str(path))}")
    folder = import_folder(path)
    package = path.relative_to(folder).parent.parts
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if package:
        return importlib.import_module(".".join([*package, path.stem]))
    # A file with the name of an imported module (`json.py`) must not replace that module for other code.
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    return module_of(f"graphsafe_target_{path.stem}" if taken or not path.stem.isidentifier() else path.stem, path)


def module_of(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
