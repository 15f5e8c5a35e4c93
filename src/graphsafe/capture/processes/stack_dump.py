"""Finds the line at which a child hangs. On request, the child writes its stack, even if it is busy."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graphsafe.capture.processes.originals import open_file, read_text
from graphsafe.capture.shared.frames import is_user_file
from graphsafe.files import from_here
from graphsafe.report.model import CallSite

_SIGNAL = getattr(signal, "SIGRTMIN", 0) and signal.SIGRTMIN + 9
"The signal that requests a stack. It has no other use. The value is 0 on systems without such a signal."
_PATIENCE = 0.5
_FRAME = re.compile(r'  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.*)')
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
"A character that is not ASCII, in the form in which `faulthandler` writes it."
_COLLECTIVES = f"torch{os.sep}distributed{os.sep}"


@dataclass(frozen=True, slots=True)
class StackTop:
    line: CallSite | None = None
    "The innermost line of the user's code."
    in_collective: bool = False
    "Whether the innermost line is waiting in a call of torch.distributed."

    def text(self) -> str:
        if self.line is None:
            return ""
        return f", at {from_here(self.line.path)}:{self.line.line}" + (
            ", which waits for other ranks" if self.in_collective else ""
        )


def write_when_asked(folder: Path, child: str) -> None:
    """Install the handler that writes the stack. Call this before anything else. Busy C code cannot delay the handler.
    After a crash, the stack is written without a request."""
    if _SIGNAL:
        with suppress(OSError, ValueError, RuntimeError):
            file = open_file(_path(folder, child), "wb")
            faulthandler.register(_SIGNAL, file=file, all_threads=False)
            faulthandler.enable(file=file, all_threads=False)


def ask_stack(pid: int, folder: Path, child: str) -> StackTop:
    """Ask a child for its stack and read it. The parent calls this before it ends the child."""
    text = ""
    if not _SIGNAL:
        return StackTop()
    with suppress(OSError):
        os.kill(pid, _SIGNAL)
        deadline = time.monotonic() + _PATIENCE
        while not text.endswith("\n") and time.monotonic() < deadline:
            time.sleep(0.02)
            text = read_text(_path(folder, child))
    return _read(text)


def written_stack(folder: Path, child: str) -> StackTop:
    """Read the stack that a child has written before it ended, if it wrote one."""
    try:
        return _read(read_text(_path(folder, child)))
    except OSError:
        return StackTop()


def _read(text: str) -> StackTop:
    in_collective = False
    for frame in _FRAME.finditer(text):
        path, function = map(_unescaped, (frame["path"], frame["function"]))
        if is_user_file(path):
            return StackTop(CallSite(path, int(frame["line"]), function), in_collective)
        in_collective = in_collective or _COLLECTIVES in path
    return StackTop(in_collective=in_collective)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda escape: chr(int(escape[escape.lastindex or 0], 16)), text)


def _path(folder: Path, child: str) -> str:
    return f"{folder}/{child}.stack"
