"""What Inductor says while it compiles and runs with CUDA graphs, as data. Pure functions over the lines of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphsafe.capture.lines.frames import absolute, is_user_file
from graphsafe.report.model import CallSite

_SKIP = re.compile(r"^(?:skipping|disabling) cudagraphs? (?:for backward )?due to (?P<reason>.*)", re.DOTALL)
_PARTITION = re.compile(r"^cudagraph partition due to (?P<reason>.*)", re.DOTALL)
"Up to torch 2.11, one message with the stack in it."
_NODE = re.compile(r"^\s+\w+: reason=(?P<reason>.*?), ir=")
"From then on, a line for each operation, and its stack on the lines after it."
_AGAIN = re.compile(r"Re-recording .*?reason[ =:](?P<reason>.*)", re.DOTALL)
_SIZE = re.compile(r"[Rr]ecording cudagraph tree for symint key (?P<key>.*)")
_FOUND = re.compile(r"\.?\s*Found from\s*:?\s*")
_FRAME = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


@dataclass(frozen=True, slots=True)
class Left:
    """Something that runs without a CUDA graph."""

    part: bool
    "A partition of a graph whose other parts are in CUDA graphs; else a whole graph."
    reason: str
    frames: tuple[CallSite, ...]
    "Of the operation that is to blame; empty where Inductor does not say."


@dataclass(frozen=True, slots=True)
class InductorLog:
    left: tuple[Left, ...]
    recorded_again: tuple[str, ...]
    "Why a graph that was there could not be replayed."
    sizes: tuple[str, ...]
    "Each a size for which graphs of their own were recorded."


def read_log(messages: Sequence[str]) -> InductorLog:
    again = [match["reason"].strip() for message in messages if (match := _AGAIN.search(message))]
    sizes = [match["key"].strip() for message in messages if (match := _SIZE.search(message))]
    return InductorLog(tuple(dict.fromkeys(_left(messages))), tuple(dict.fromkeys(again)), tuple(dict.fromkeys(sizes)))


def _left(messages: Sequence[str]) -> Iterator[Left]:
    for index, message in enumerate(messages):
        for pattern, part in ((_SKIP, False), (_PARTITION, True)):
            match = pattern.match(message)
            if match:
                reason, *stack = _FOUND.split(match["reason"], maxsplit=1)
                yield Left(part, _sentence(reason), _frames(stack))
        node = _NODE.match(message)
        if node:
            yield Left(True, _sentence(node["reason"]), _frames(_stack_after(messages, index)))


def _stack_after(messages: Sequence[str], index: int) -> Iterator[str]:
    for line in messages[index + 1 :]:
        if _NODE.match(line) or not line.startswith(" "):
            return
        yield line


def _sentence(reason: str) -> str:
    return " ".join(reason.split()).rstrip(". ")


def _frames(texts: Iterable[str]) -> tuple[CallSite, ...]:
    """The user's frames of a formatted stack."""
    found = [match for text in texts for match in _FRAME.finditer(text)]
    return tuple(
        CallSite(absolute(match["path"]), int(match["line"]), match["function"])
        for match in found
        if is_user_file(match["path"])
    )
