"""Watches captures and replays by wrapping the methods of `CUDAGraph`. Every way to capture a graph calls them.

`make_graphed_callables` is wrapped too, because it may fail before it captures. Dynamo calls each wrapper without
tracing its lines, as it does with the wrapped method.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from graphsafe.capture.shared.replaced import replaced
from graphsafe.run.child.book import Book
from graphsafe.run.child.failed_captures import is_watched
from graphsafe.run.child.generators import register
from graphsafe.run.child.optimizers import state_of
from graphsafe.run.counters import LAST_RUN, NO_ROOM, ROOM

_SOMETIMES = 15
"The values that a graph froze are compared before at least every 16th replay."
_RECORD = "_graphsafe_record"
"The attribute of a graph that holds its record."


def hooked(book: Book) -> AbstractContextManager[None]:
    """Wrap the methods while the context is active."""
    graph = book.sight.graph
    hooks = (
        (graph, "capture_begin", _capture_begin),
        (graph, "capture_end", _capture_end),
        (graph, "replay", _replay),
        (graph, "reset", _reset),
        (graph, "register_generator_state", _register_generator_state),
        (graph, "instantiate", _instantiate),
        (torch.cuda, "make_graphed_callables", _make_graphed_callables),
        (torch.optim.Optimizer, "load_state_dict", _load_state_dict),
    )
    book.sight.watch_results(
        lambda graph: book.safely(book.comparing, graph.__dict__.get(_RECORD)),
        lambda storages: book.safely(book.reading, storages),
    )
    # Some of these methods are missing in older versions of PyTorch and in builds without CUDA.
    there = [(owner, name, hook) for owner, name, hook in hooks if hasattr(owner, name)]
    return replaced(*((owner, name, _wrapped(owner, name, hook, book)) for owner, name, hook in there))


def _wrapped(owner: Any, name: str, hook: Callable[..., Any], book: Book) -> Any:
    original = getattr(owner, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return hook(original, book, *args, **kwargs)

    if hook is _replay:  # programs replay often, and this saves a call in each replay
        wrapper = _replay(original, book)
    wrapper._torchdynamo_disable = True  # type: ignore[attr-defined]
    wrapper.__name__, wrapper.__qualname__ = name, f"{owner.__name__}.{name}"
    wrapper.__doc__ = original.__doc__
    return wrapper


def _capture_begin(original: Any, book: Book, graph: Any, *args: Any, **kwargs: Any) -> Any:
    record = book.safely(book.begun, graph.__dict__.get(_RECORD), id(sys.exc_info()[1]))
    setattr(graph, _RECORD, record)
    try:
        result = original(graph, *args, **kwargs)
    except BaseException as error:
        setattr(graph, _RECORD, None)
        book.safely(book.failing, graph, record, error, sys._getframe(1), "broken")
        raise
    if record is not None:
        book.safely(book.failed.begun, graph, record)
    names = {} if record is None else record.names
    book.safely(book.sight.begun, args[0] if args else kwargs.get("pool"), names)
    return result


def _capture_end(original: Any, book: Book, graph: Any) -> Any:
    record = graph.__dict__.get(_RECORD)
    # If `torch.cuda.graph` calls this method in its `__exit__`, the exception being handled is the error of the `with`
    # body. `capture_end` then raises only a second error, which says that the capture failed.
    raised = sys.exc_info()[1]
    if record is not None and record.handled == id(raised):
        raised = None
    setattr(graph, _RECORD, None)
    if record is not None:
        book.safely(book.failed.ended, record)
    book.safely(book.sight.ending, graph)
    try:
        result = original(graph)
    except BaseException as error:
        book.safely(book.failing, graph, record, error, sys._getframe(1), "broken")
        raise
    if raised is not None:
        book.safely(book.failing, graph, record, raised, sys._getframe(1), "left")
    elif record is not None:
        setattr(graph, _RECORD, record)
        book.safely(book.ended, graph, record, sys._getframe(1))
    return result


def _replay(original: Any, book: Book) -> Any:
    now, clock, safely, looking = time.time_ns, time.perf_counter, book.safely, book.replaying
    thread = threading.get_ident
    ordering = book.sight.ordering()

    def replay(self: Any) -> Any:
        record = self.__dict__.get(_RECORD)
        if record is None:
            return original(self)
        if record.suspect or clock() >= record.next_look:
            safely(looking, record)
        elif not book.counters.cells[record.slot] & _SOMETIMES:
            safely(book.checking_values, record)
        if ordering is not None:
            safely(ordering, self, record.accesses)
        if thread() != record.replayer:
            safely(book.changing_thread, record)
        pinned = record.contents.pinned
        if pinned is not None:
            safely(pinned.replaying)
        result = original(self)
        if pinned is not None:
            safely(pinned.replayed)
        if record.draws.names is None:
            safely(record.draws.replayed)
        cells, slot = book.counters.cells, record.slot
        cells[slot] += 1
        run = cells[LAST_RUN]
        if cells[run] == slot:
            cells[run + 1] += 1
        elif run < ROOM:
            cells[LAST_RUN] = run = run + 2
            cells[run] = slot
            cells[run + 1] = 1
        else:
            cells[LAST_RUN] = NO_ROOM
        cells[slot + 2] = moment = now()
        if not cells[slot + 1]:
            cells[slot + 1] = moment
        return result

    return replay


def _register_generator_state(original: Any, book: Book, graph: Any, generator: Any) -> Any:
    result = original(graph, generator)
    book.safely(register, graph, generator)
    return result


def _instantiate(original: Any, book: Book, graph: Any) -> Any:
    result = original(graph)
    record = graph.__dict__.get(_RECORD)
    if record is not None:
        book.safely(book.instantiated, record)
    return result


def _reset(original: Any, book: Book, graph: Any) -> Any:
    record = graph.__dict__.get(_RECORD)
    if record is not None:
        record.drop()
        setattr(graph, _RECORD, None)
    return original(graph)


def _load_state_dict(original: Any, book: Book, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    for number in state_of(optimizer):  # the loaded state replaces this state
        book.safely(book.memories.leaving, number)
    return original(optimizer, *args, **kwargs)


def _make_graphed_callables(original: Any, book: Book, *args: Any, **kwargs: Any) -> Any:
    try:
        return original(*args, **kwargs)
    except BaseException as error:
        if not is_watched(error):
            book.safely(book.failing, None, None, error, sys._getframe(1), "refused")
        raise
