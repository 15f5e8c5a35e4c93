"""Reads Inductor's messages about CUDA graphs, while it compiles and runs, as data. Pure functions over the lines of
its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphsafe.capture.shared.frames import absolute, is_user_file
from graphsafe.report.model import CallSite
from graphsafe.report.probes.step import Left

_SKIP = re.compile(r"^(?:skipping|disabling) cudagraphs? (?:for backward )?due to (?P<reason>.*)", re.DOTALL)
_PARTITION = re.compile(r"^cudagraph partition due to (?P<reason>.*)", re.DOTALL)
"The form up to torch 2.11: one message that contains the stack."
_NODE = re.compile(r"^\s+\w+: reason=(?P<reason>.*?), ir=")
"The form of later versions: a line for each operation, with its stack on the following lines."
_AGAIN = re.compile(r"Re-recording .*?reason[ =:](?P<reason>.*)", re.DOTALL)
_SIZE = re.compile(r"[Rr]ecording cudagraph tree for symint key (?P<key>.*)")
_FOUND = re.compile(r"\.?\s*Found from\s*:?\s*")
_FRAME = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


@dataclass(frozen=True, slots=True)
class InductorLog:
    left: tuple[Left, ...]
    recorded_again: tuple[str, ...]
    "Messages that say why an existing graph could not be replayed."
    sizes: tuple[str, ...]
    "Messages that name a size for which new graphs were recorded."


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
    """Return the user's frames of a formatted stack."""
    found = [match for text in texts for match in _FRAME.finditer(text)]
    return tuple(
        CallSite(absolute(match["path"]), int(match["line"]), match["function"])
        for match in found
        if is_user_file(match["path"])
    )
