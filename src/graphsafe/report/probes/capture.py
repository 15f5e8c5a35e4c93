"""The attempt to capture the step without instrumentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphsafe.report.probes.probe import Error, Number, Probe, error_text, later
from graphsafe.report.text import count, listed


@dataclass(frozen=True, slots=True)
class Capture(Probe):
    """`pass`: the capture gave a graph. `fail`: the warm-up ran, but the capture raised an error or could not be ended,
    or the graph was empty. `skipped`: the warm-up raised an error, or memory ran out because other children used the
    device."""

    phase: str | None = None
    "The last phase that the child announced. If the child died in the phase `capture`, the capture failed."
    nodes: Mapping[str, int] | None = None
    "Kind -> the number of nodes of this kind in the graph."
    first_error: Error | None = None
    empty: bool | None = None
    misses_work: bool | None = None
    "Whether device work of the step ran outside the graph. It is never derived from lists of kernels."
    unknown_operations: tuple[str, ...] | None = None
    "Operations whose effects the device does not know. It is empty on CUDA."
    pool_bytes: int | None = later()
    from_shapes: bool | None = later()
    "Whether the step was captured from shapes alone, without values. Such a graph cannot be replayed."

    def text(self) -> str:
        if self.first_error is not None or not self.nodes:
            return error_text(self.first_error) or ("the graph is empty" if self.empty else "")
        kinds = listed(count(number, kind) for kind, number in self.nodes.items())
        return f"{count(sum(self.nodes.values()), 'node')}: {kinds}"

    def numbers(self) -> Sequence[Number]:
        return [Number("nodes of the graph", sum((self.nodes or {}).values()) or None, "count")]
