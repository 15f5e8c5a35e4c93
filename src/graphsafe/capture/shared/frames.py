"""Finds the user's lines in a running stack, and the `while` loop that is running there.

A frame of the user is outside of torch, graphsafe and the standard library. A library that the step calls
(transformers, an engine) counts as the user's code, because a repair has to change such lines.

`for` loops end when their sequence ends. `while` loops may run forever.
"""

from __future__ import annotations

import dis
import functools
import itertools
import linecache
import os
import re
import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType

from graphsafe.report.model import CallSite, Span
from graphsafe.version import PACKAGE

_GRAPHSAFE = PACKAGE + os.sep
_STANDARD = tuple(
    os.path.realpath(path) + os.sep for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} if path
)
_SITES = ("site-packages", "dist-packages")
_MOST_DECORATOR_LINES = 40
_ASKS = ("POP_JUMP", "JUMP_IF", "TO_BOOL")
"Prefixes of the names of instructions that test the truth of a value."
_KEEPS = ("COPY", "SWAP", "NOP", "CACHE", "EXTENDED_ARG", "STORE_")
"""Prefixes of the names of instructions that produce no value. Such instructions may stand between the instruction that
makes a value and the test of this value."""
_CHANGING = {
    re.compile(r"\b0x[0-9a-fA-F]{6,16}\b"): "0x...",
    re.compile(r"(?<=[/\\])tmp[a-z0-9_]{8}\b"): "tmp...",
    re.compile(r"(?i)\b(pid[ =:]+)\d+\b"): r"\1...",
    re.compile(r"(\[(?:(?:\d+\.){3}\d+|[\da-f:.]*::[\da-f:.]*)\]):\d+\b"): r"\1:...",
}
"""Pattern -> the symbolic name that replaces its matches. The patterns match addresses, folders from `tempfile`,
process numbers, and ports in messages of gloo."""
_BETWEEN = (
    *("torch._compile", "torch._dynamo", "torch._jit_internal", "torch._ops", "torch._utils", "torch.utils._"),
    *("torch.nn.modules.module", "torch.overrides"),
)
"Modules of torch whose functions only pass a call on to another function."
_MACHINERY = ("torch", "torchgen", "triton", "functorch", "breakable_cuda_graphs.py", "typing_extensions.py")


def absolute(filename: str) -> str:
    """Return the absolute file name. Return the name unchanged if the working directory has been removed."""
    try:
        return os.path.abspath(filename)
    except OSError:
        return filename


def is_graphsafe_file(filename: str) -> bool:
    return absolute(filename).startswith(_GRAPHSAFE)


@functools.cache
def is_user_file(filename: str) -> bool:
    if filename.startswith("<"):
        return filename.startswith("<ipython-input")
    path = absolute(filename)
    if path.startswith(_GRAPHSAFE):
        return False
    parts = path.split(os.sep)
    if _is_written_by_inductor(path, parts):
        return False
    for site in _SITES:
        if site in parts:
            rest = parts[len(parts) - parts[::-1].index(site) :]
            return bool(rest) and rest[0] not in _MACHINERY
    return not os.path.realpath(path).startswith(_STANDARD)


def _is_written_by_inductor(path: str, parts: list[str]) -> bool:
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return any(part.startswith("torchinductor_") for part in parts) or bool(
        folder and path.startswith(absolute(folder))
    )


def written_at(code: CodeType | None) -> CallSite | None:
    """Return the place where a function is written. Return None if the function is not the user's."""
    if code is None or not is_user_file(code.co_filename):
        return None
    return call_site(code, _line_of_def(code))


def _line_of_def(code: CodeType) -> int:
    """Return the line of `def`. For a decorated function, the first line of the code object is the decorator's line."""
    lines = (linecache.getline(code.co_filename, code.co_firstlineno + more) for more in range(_MOST_DECORATOR_LINES))
    if next(lines, "").lstrip().startswith("@"):
        for more, text in enumerate(lines, start=1):
            if text.lstrip().startswith(("def ", "async def ")):
                return code.co_firstlineno + more
    return code.co_firstlineno


def function_name(code: CodeType) -> str | None:
    """Return the qualified name without `<locals>`. Before Python 3.11, return the bare name."""
    return _shown(getattr(code, "co_qualname", code.co_name))


def _shown(name: str) -> str | None:
    return None if name == "<module>" else name.replace("<locals>.", "")


def call_site(code: CodeType, line: int) -> CallSite:
    """Return a line of running code as a `CallSite`."""
    return _site(code.co_filename, line, getattr(code, "co_qualname", code.co_name))


@functools.lru_cache(maxsize=65_536)
def _site(filename: str, line: int, name: str) -> CallSite:
    """Return a line as a `CallSite`. The arguments are strings because they are keys of the cache: hashing a code
    object also hashes its constants, which costs more."""
    return CallSite(absolute(filename), line, _shown(name))


@functools.lru_cache(maxsize=4096)
def position_in(code: CodeType, instruction: int) -> Span | None:
    """Return the span of the expression to which an instruction belongs; None before Python 3.11."""
    if sys.version_info < (3, 11) or instruction < 0:
        return None
    instruction = _tested(code, instruction)
    for line, end_line, column, end_column in itertools.islice(code.co_positions(), instruction // 2, None):
        if line is None or end_line is None or column is None or end_column is None:
            return None
        return line, column, end_line, end_column
    return None


def _tested(code: CodeType, offset: int) -> int:
    """For a jump, return the instruction that made the tested value. Return any other instruction itself. The position
    of a jump covers the whole `if`, even if the jump tests only one of several operands."""
    before = [one for one in dis.get_instructions(code) if one.offset <= offset]
    if not before or not before[-1].opname.startswith(_ASKS):
        return offset
    return next((one.offset for one in reversed(before) if not one.opname.startswith((*_ASKS, *_KEEPS))), offset)


def user_frames(frame: FrameType | None = None) -> tuple[tuple[CallSite, ...], Span | None]:
    """Return the user's frames of the running stack, outermost first, and the span that is running in the last
    of them."""
    running = user_frames_now(frame or sys._getframe(1))
    span = position_in(running[0].f_code, running[0].f_lasti) if running else None
    return tuple([call_site(one.f_code, one.f_lineno) for one in reversed(running)]), span


def user_frames_now(frame: FrameType | None) -> list[FrameType]:
    """Return `frame` and its callers, but only the frames of the user's code."""
    return [one for one in frames_from(frame) if is_user_file(one.f_code.co_filename)]


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, then its callers outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def torch_function(frame: FrameType | None) -> str | None:
    """Return the outermost function of torch that the user's innermost line has called, under its public name. Return
    None if that function is not written in Python. Wrappers such as decorators are skipped."""
    found: tuple[str, str] | None = None
    for one in frames_from(frame):
        module, code = str(one.f_globals.get("__name__")), one.f_code
        if is_user_file(code.co_filename):
            return None if found is None else public_name(*found)
        name: str = getattr(code, "co_qualname", code.co_name)
        if module.startswith("torch") and not module.startswith(_BETWEEN) and "<locals>" not in name:
            found = module, name
    return None


@functools.cache
def public_name(module: str, name: str) -> str:
    """Return the usual name of a function or a method that a module of torch defines. For `GradScaler.step` of
    `torch.amp.grad_scaler`, this is `torch.amp.GradScaler.step`, because `torch.amp` exports the class too."""
    if module == "torch._tensor" and "." not in name:  # before Python 3.11, names have no class
        name = f"Tensor.{name}"
    head, parts = name.partition(".")[0], module.split(".")
    packages = [".".join(parts[:length]) for length in (*range(2, len(parts)), 1)]
    exported = (one for one in packages if _exports(one, head, module))
    return f"{next(exported, module)}.{name.removesuffix('.__init__')}"


def _exports(package: str, name: str, module: str) -> bool:
    return getattr(vars(sys.modules.get(package, sys)).get(name), "__module__", None) in (module, package)


def running_line() -> CallSite | None:
    """Return the innermost frame of the user in the running stack, or None."""
    frames = (one for one in frames_from(sys._getframe(1)) if is_user_file(one.f_code.co_filename))
    return next((call_site(one.f_code, one.f_lineno) for one in frames), None)


def stack_level() -> int:
    """Return the `stacklevel` that the calling function passes to `warnings.warn`. The warning then names the user's
    innermost frame. If there is no such frame (`python -c`), the result names the outermost frame."""
    frames = list(frames_from(sys._getframe(1)))
    levels = (level for level, one in enumerate(frames, 1) if is_user_file(one.f_code.co_filename))
    return next(levels, len(frames))


def frames_under(thread: int) -> tuple[CallSite, ...]:
    """Return the user's frames of the running stack. If `thread` is another thread, its frames come first: the running
    thread then belongs to autograd and does work for `thread`, which waits."""
    frames, _ = user_frames(sys._getframe(1))
    if threading.get_ident() == thread:
        return frames
    outer, _ = user_frames(sys._current_frames()[thread])
    return (*outer, *frames)


def traceback_frames(traceback: TracebackType | None) -> tuple[tuple[CallSite, ...], Span | None]:
    """Return the user's frames in an exception's traceback, outermost first, and the span that was running in the last
    of them. The callers of the frame that caught the exception are not in the traceback."""
    found: list[CallSite] = []
    span: Span | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_file(code.co_filename):
            span = position_in(code, traceback.tb_lasti)
            found.append(call_site(code, traceback.tb_lineno))
        traceback = traceback.tb_next
    return tuple(found), span


def root_error(error: BaseException, handled: int = 0) -> tuple[BaseException, tuple[BaseException, ...]]:
    """Return the first error of a chain, and the whole chain from first to last.

    The error that reaches the user ("operation failed due to a previous error during capture") hides its cause in
    `__context__`. `handled` is the `id` of an exception that was already being handled when the capture began. The
    chain that is returned stops before that exception.
    """
    chain = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) is not None and id(earlier) != handled:
        if any(earlier is known for known in chain):
            break
        chain.append(earlier)
    return chain[-1], tuple(reversed(chain))


def message_of(error: BaseException) -> str:
    """Return the message of an error. The message is empty if the error itself raises when its message is requested.

    Lone surrogates become escapes. Names that differ from run to run become symbolic: `<Cache object at 0x...>`.
    """
    try:
        text = str(error)
    except Exception:
        return ""
    text = text.encode("utf-8", "backslashreplace").decode()
    for pattern, name in _CHANGING.items():
        text = pattern.sub(name, text)
    return text


def error_frames(error: BaseException | None, root: BaseException | None = None) -> tuple[CallSite, ...]:
    """Return the user's frames from the place where the error was caught to the place where it began. It began at
    the line that raised `root`. If `root` is not given, the first error of the chain is used."""
    if error is None:
        return ()
    root = root or root_error(error)[0]
    outer, _ = traceback_frames(error.__traceback__)
    inner, _ = traceback_frames(root.__traceback__)
    return tuple(dict.fromkeys((*outer, *inner)))


_JUMPS = frozenset(op for op in (*dis.hasjrel, *dis.hasjabs) if not dis.opname[op].endswith("_NO_INTERRUPT"))
"""The instructions that may jump back to the beginning of a loop. Jumps of the kind `NO_INTERRUPT` are left out: they
wait for a generator, or leave an exception handler."""
Way = tuple[tuple[CodeType, int], ...]
"""Code objects, each with the instruction that it is running. The first is the innermost code object; the last contains
the running loop."""


def running_while() -> Way | None:
    """Return the way to the innermost running loop, without graphsafe's frames. Return None if that loop is not a
    `while` loop."""
    way: list[tuple[CodeType, int]] = []
    for frame in frames_from(sys._getframe(1)):
        at = frame.f_code, frame.f_lasti
        if not is_graphsafe_file(at[0].co_filename):
            way.append(at)
            loop = _loop_around(*at)
            if loop is not None:
                return None if loop == "FOR_ITER" else tuple(way)
    return None


@functools.lru_cache(maxsize=4096)
def _loop_around(code: CodeType, at: int) -> str | None:
    """Return the name of the instruction with which the innermost loop around an instruction begins. Return None if
    there is no loop."""
    instructions = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
    back = [(one.offset, one.argval) for one in instructions if one.opcode in _JUMPS and one.argval <= at <= one.offset]
    if not back:
        return None
    _, begin = min(back, key=lambda jump: jump[0] - jump[1])
    return next(one.opname for one in instructions if one.offset >= begin)
