"""Replays with fewer requests than were captured: what stands in the rows behind them must not reach the others.

The rows are filled in several ways, as engines do or forget to. `stale`: those of another batch, as a refresh leaves
them that writes the live rows alone, integers as large as any that the input has had. `zeros`, and `dummy`, a request
of its own repeated: what engines fill padding with. `nan`: memory that nobody has written. Two replays are made of
each, because a row that writes into a cache is seen in the next step. Where results follow the filling, an eager step
on the live requests alone says which filling is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphsafe.capture.buckets.axes import batch_axis
from graphsafe.capture.buckets.members import Held, Member
from graphsafe.capture.buckets.rows import Rows, live_requests, neighbour, rows_by_name
from graphsafe.capture.compare import Spread
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.state import inputs_of
from graphsafe.capture.targets import TargetError, describe, users_code

if TYPE_CHECKING:
    import torch

STALE, ZEROS, DUMMY, NAN = "stale", "zeros", "dummy", "nan"
FILLS = (ZEROS, DUMMY, STALE, NAN)
"In this order: what an index or NaN has broken does not keep the others from being tried."
_ROUNDING = Spread(units=64.0)
"A step on fewer rows may take other kernels than one on all."

Values = Mapping[str, "torch.Tensor"]


def padded_replays(members: Sequence[Member], held: Sequence[Held]) -> Iterator[list[dict[str, Any]]]:
    """What is known so far, after each way of filling."""
    found: list[_Padded] = []
    axes = [member.axes for member in members]
    for member in members:
        live, beside = live_requests(member.axes, axes), neighbour(member.axes, axes)
        if live is not None and beside is not None:
            padded = _Padded(member, members[beside], live, held)
            found += [padded] if padded.rows else []
    for fill in FILLS:
        for padded in found:
            padded.member.session.channel.phase(f"{padded.member.name} with {padded.live} live, padding: {fill}")
            padded.fill(fill)
            yield [each.as_data() for each in found]
            if padded.error is not None:  # the process may be broken
                return


class _Padded:
    def __init__(self, member: Member, other: Member, live: int, held: Sequence[Held]) -> None:
        self.member = member
        self.live = live
        self.error: str | None = None
        self._held = held
        self._inputs = inputs_of(member.session.subject)
        name = batch_axis(member.axes) or ""
        batches = (member.axes[name], other.axes[name])
        shapes = {path: list(tensor.shape) for path, tensor in self._inputs.items()}
        theirs = {path: list(tensor.shape) for path, tensor in inputs_of(other.session.subject).items()}
        self.rows = rows_by_name(shapes, theirs, *batches)
        outputs = {name: list(value.shape) for name, value in member.alone[1].items()}
        others = {name: list(value.shape) for name, value in other.alone[1].items()}
        self._out = rows_by_name(outputs, others, *batches)
        self._results: dict[str, list[dict[str, torch.Tensor]]] = {}
        self._right: dict[str, list[str] | None] = {}

    def fill(self, fill: str) -> None:
        try:
            self._results[fill] = self._replays(fill)
        except Exception as error:
            self.error = f"{fill}: {describe(error)}"
            return
        if fill == STALE and self.member.session.ranks.any(bool(self._follows())):
            expected = self._eager()
            for tried in (ZEROS, DUMMY, STALE):
                wrong = None if expected is None else self._differing(self._results[tried], expected, _ROUNDING)
                self._right[tried] = wrong

    def as_data(self) -> dict[str, Any]:
        nan = self._results.get(NAN)
        return {
            "axes": dict(self.member.axes),
            "live": self.live,
            "inputs": sorted(self.rows),
            "follows": self._follows() if STALE in self._results else None,
            "wrong": {fill: self._right.get(fill) for fill in (ZEROS, DUMMY, STALE)},
            "nan": None if nan is None else self._differing(nan, self._results[ZEROS], self.member.noise),
            "error": self.error,
        }

    def _follows(self) -> list[str]:
        """Outputs of live requests that are not the same under every filling."""
        zeros = self._results[ZEROS]
        names = [self._differing(self._results[fill], zeros, self.member.noise) for fill in (DUMMY, STALE)]
        return sorted({name for found in names for name in found})

    def _differing(self, found: Sequence[Values], expected: Sequence[Values], noise: Spread) -> list[str]:
        names = [self.member.apart(ours, theirs, noise) for ours, theirs in zip(found, expected, strict=True)]
        return sorted({name for found in names for name in found})

    def _replays(self, fill: str) -> list[dict[str, torch.Tensor]]:
        """Live rows of two replays."""
        session = self.member.session
        self._put_back()
        session.put_inputs(2)
        others = {path: session.device.to_host(self._inputs[path]) for path in self.rows}
        session.put_inputs(1)
        own = {path: session.device.to_host(self._inputs[path]) for path in self.rows}
        for path, rows in self.rows.items():
            session.device.store(self._inputs[path], _filled(own[path], others[path], rows, self.live, fill))
        results = [self._live(self.member.replay_again()) for _ in range(2)]
        for path, values in own.items():
            session.device.store(self._inputs[path], values)
        return results

    def _eager(self) -> list[dict[str, torch.Tensor]] | None:
        """Two eager steps on the live requests alone; None where the step takes no other shapes."""
        from torch.utils._pytree import tree_map

        session, subject = self.member.session, self.member.session.subject
        self._put_back()
        session.put_inputs(1)
        live = {
            id(self._inputs[path]): self._inputs[path].detach()[_at(rows, rows.of(self.live))].clone()
            for path, rows in self.rows.items()
        }
        found: set[int] = set()

        def replaced(value: Any) -> Any:
            found.add(id(value))
            return live.get(id(value), value)

        args, kwargs = tree_map(replaced, (subject.args, dict(subject.kwargs)))
        if not found >= live.keys():
            return None
        results = []
        try:
            for _ in range(2):
                with users_code("step", "the step failed"), session.device.as_if_capturing(lambda asked: None):
                    outputs = session.outputs_of(subject.fn(*args, **kwargs))
                    session.device.synchronize()
                    results.append({path: session.device.to_host(one) for path, one in outputs.tensors.items()})
        except TargetError:
            return None
        return results

    def _put_back(self) -> None:
        for one in self._held:
            one.put_back()

    def _live(self, outputs: Values) -> dict[str, torch.Tensor]:
        with outside_modes():
            return {
                name: value[_at(self._out[name], self._out[name].of(self.live))] if name in self._out else value
                for name, value in outputs.items()
            }


def _filled(own: torch.Tensor, other: torch.Tensor, rows: Rows, live: int, fill: str) -> torch.Tensor:
    import torch

    with outside_modes():
        values = own.clone()
        padding = _at(rows, rows.behind(live))
        is_float = values.is_floating_point() or values.is_complex()
        if fill == STALE:
            stale = other[padding]
            if not is_float and values.dtype != torch.bool:
                stale = torch.full_like(stale, int(torch.maximum(own.max(), other.max())))
            values[padding] = stale
        elif fill == DUMMY:
            first = values[_at(rows, slice(live * rows.each, (live + 1) * rows.each))]
            times = [1] * values.dim()
            times[rows.dimension] = own[padding].shape[rows.dimension] // rows.each
            values[padding] = first.repeat(times)
        elif fill == ZEROS or not is_float:
            values[padding] = 0
        else:
            values[padding] = float("nan")
        return values


def _at(rows: Rows, part: slice) -> tuple[slice, ...]:
    return (*[slice(None)] * rows.dimension, part)
