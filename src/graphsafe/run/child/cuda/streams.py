"""Reports the calls that order a GPU's streams: events, queries, and changes of the current stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
import torch.cuda._gpu_trace as gpu_trace

from graphsafe.capture.shared.replaced import replaced
from graphsafe.run.child.cuda.order import CudaOrder
from graphsafe.run.child.refills import Stream


def current_stream() -> Stream:
    return key_of(int(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())))


def key_of(pointer: int) -> Stream:
    """Return a key of a stream, with its device, because all default streams have the same pointer."""
    return (0 if pointer else torch.cuda.current_device()), pointer


def watch_streams(order: CudaOrder) -> AbstractContextManager[None]:
    """Begin to report to `order`.

    The returned context ends the reports, except those of events, which last as long as the process.
    """
    _watch_events(order)
    hooks = [
        (torch.cuda.Event, "query", _asked(torch.cuda.Event.query, order, _event_done)),
        (torch.cuda.Stream, "query", _asked(torch.cuda.Stream.query, order, _stream_done)),
        (torch.cuda, "set_stream", _switching(torch.cuda.set_stream, order)),
    ]
    for _, _, hook in hooks:
        hook._torchdynamo_disable = True
    return replaced(*hooks)


def _watch_events(order: CudaOrder) -> None:
    def recorded(event: int, stream: int) -> None:
        if not torch.cuda.is_current_stream_capturing():
            order.look()
            order.refills.recorded(event, key_of(stream))

    def waited(event: int, stream: int) -> None:
        if not torch.cuda.is_current_stream_capturing():
            order.look()
            order.refills.waited(key_of(stream), event)

    gpu_trace.register_callback_for_event_record(partial(order.quietly, recorded))
    gpu_trace.register_callback_for_event_wait(partial(order.quietly, waited))
    gpu_trace.register_callback_for_event_deletion(partial(order.quietly, order.refills.forgotten))


def _asked(query: Any, order: CudaOrder, done: Callable[[CudaOrder, Any], None]) -> Any:
    """Report a query that answers True: a program may poll instead of waiting."""

    def asked(self: Any) -> Any:
        answer = query(self)
        if answer:
            order.quietly(done, order, self)
        return answer

    return asked


def _event_done(order: CudaOrder, event: Any) -> None:
    order.look()
    order.refills.host_waited(event=int(event.cuda_event))


def _stream_done(order: CudaOrder, stream: Any) -> None:
    order.look()
    order.refills.host_waited(key_of(int(stream.cuda_stream)))


def _switching(set_stream: Any, order: CudaOrder) -> Any:
    def switching(stream: Any) -> None:
        capturing = torch.cuda.is_current_stream_capturing()
        if not capturing:
            order.quietly(order.look)
        set_stream(stream)
        if not capturing:
            order.quietly(order.switched)

    return switching
