"""Replays with fewer requests than were captured. The values in padding rows must not change the results of the live
requests.

The padding rows are filled in several ways: with the values that engines use, and with leftovers of an earlier batch.
`stale` fills padding rows with rows of another batch, as if a refresh had written only the live rows. Integers in
padding rows become the largest value that the input has had. `zeros` and `dummy` (a repeated request) are the values
with which engines fill padding. `nan` stands for memory that was never written. Each filling is replayed twice, because
a padding row that writes into a cache affects only the next step. If results depend on the filling, an eager step on
the live requests alone shows which filling gives the right results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from graphsafe.capture.child.buckets.members import Member, SavedBindings, put_back_all
from graphsafe.capture.child.compare import Spread
from graphsafe.capture.child.state import inputs_of
from graphsafe.capture.child.targets import TargetError, describe
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.shared.axes import batch_axis
from graphsafe.report.pool import Padded

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Rows:
    dimension: int
    each: int
    "Number of rows for each request in this dimension."

    def at(self, first: int, end: int | None) -> tuple[slice, ...]:
        """Return the index that selects the rows of the requests from `first` to `end`. The request `end` is excluded.
        If `end` is None, the last request is included."""
        rows = slice(first * self.each, None if end is None else end * self.each)
        return (*[slice(None)] * self.dimension, rows)


def rows_by_name(ours: Shapes, theirs: Shapes, batch: int, other_batch: int) -> dict[str, Rows]:
    """Return the rows of each tensor that has exactly one dimension which grows with the number of requests."""
    found = {}
    for name, shape in ours.items():
        other = theirs.get(name)
        if other is None or len(other) != len(shape):
            continue
        differing = [at for at, (one, two) in enumerate(zip(shape, other, strict=True)) if one != two]
        if len(differing) != 1 or shape[differing[0]] % batch:
            continue
        each = shape[differing[0]] // batch
        if each and other[differing[0]] == each * other_batch:
            found[name] = Rows(differing[0], each)
    return found


def live_requests(axes: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the smallest number of requests for which an engine uses this bucket; None if the bucket never has
    padding."""
    name = batch_axis(axes)
    if name is None:
        return None
    smaller = [other[name] for other in others if _beside(axes, other, name) and other[name] < axes[name]]
    live = max(smaller, default=0) + 1
    return live if live < axes[name] else None


def neighbour(axes: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the index of another bucket that differs from this bucket only in the number of requests, or None."""
    name = batch_axis(axes)
    if name is None:
        return None
    places = (at for at, other in enumerate(others) if _beside(axes, other, name) and other[name] != axes[name])
    return next(places, None)


def _beside(axes: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return {**axes, name: None} == {**other, name: None}


STALE, ZEROS, DUMMY, NAN = "stale", "zeros", "dummy", "nan"
FILLS = (ZEROS, DUMMY, STALE, NAN)
"""The fillings in the order in which they are tried. `stale` and `nan` come last, because a stale index or a NaN may
cause a device error after which the process cannot go on."""
_ROUNDING = Spread(units=64.0)
"The tolerance for a step on fewer rows. Its kernels may differ from those of a step on all rows."

Values = Mapping[str, torch.Tensor]


def padded_replays(members: Sequence[Member], held: Sequence[SavedBindings]) -> Iterator[tuple[Padded, ...]]:
    """Yield the results so far, after each way of filling the padding."""
    found: list[_Rows] = []
    axes = [member.axes for member in members]
    for member in members:
        live, beside = live_requests(member.axes, axes), neighbour(member.axes, axes)
        if live is not None and beside is not None:
            padded = _Rows(member, members[beside], live, held)
            found += [padded] if padded.rows else []
    for fill in FILLS:
        for padded in found:
            padded.member.session.channel.phase(f"{padded.member.name} with {padded.live} live, padding: {fill}")
            padded.fill(fill)
            yield tuple(each.answer() for each in found)
            if padded.error is not None:  # the process may be broken
                return


class _Rows:
    def __init__(self, member: Member, other: Member, live: int, held: Sequence[SavedBindings]) -> None:
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
        self._right: dict[str, tuple[str, ...] | None] = {}

    def fill(self, fill: str) -> None:
        try:
            self._results[fill] = self._replays(fill)
        except Exception as error:
            self.error = f"{fill}: {describe(error)}"
            return
        if fill == STALE and self.member.session.ranks.any(bool(self._differing_outputs())):
            expected = self._eager()
            for tried in (ZEROS, DUMMY, STALE):
                wrong = None if expected is None else self._differing(self._results[tried], expected, _ROUNDING)
                self._right[tried] = wrong

    def answer(self) -> Padded:
        nan = self._results.get(NAN)
        # The filling may have caused the error, for example by an index that no live row has.
        breaks_with_others = self.error is not None and DUMMY in self._results
        return Padded(
            self.member.axes,
            self.live,
            inputs=tuple(sorted(self.rows)),
            follows=self._differing_outputs() if STALE in self._results or breaks_with_others else None,
            wrong={fill: self._right.get(fill) for fill in (ZEROS, DUMMY, STALE)},
            nan=None if nan is None else self._differing(nan, self._results[ZEROS], self.member.noise),
            error=self.error,
        )

    def _differing_outputs(self) -> tuple[str, ...]:
        """Return the live requests' outputs that differ between the fillings replayed so far."""
        zeros = self._results[ZEROS]
        tried = [fill for fill in (DUMMY, STALE) if fill in self._results]
        found = (self._differing(self._results[fill], zeros, self.member.noise) for fill in tried)
        return tuple(sorted(set[str]().union(*found)))

    def _differing(self, found: Sequence[Values], expected: Sequence[Values], noise: Spread) -> tuple[str, ...]:
        pairs = zip(found, expected, strict=True)
        return tuple(sorted(set[str]().union(*(self.member.differing_outputs(*pair, noise) for pair in pairs))))

    def _replays(self, fill: str) -> list[dict[str, torch.Tensor]]:
        """Replay twice with this filling, and return the live rows of the outputs."""
        session = self.member.session
        put_back_all(self._held)
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
        """Run two eager steps on the live requests alone. Return None if the step does not accept other shapes."""
        session, subject = self.member.session, self.member.session.subject
        put_back_all(self._held)
        session.put_inputs(1)
        live = {
            id(self._inputs[path]): self._inputs[path].detach()[rows.at(0, self.live)].clone()
            for path, rows in self.rows.items()
        }
        found: set[int] = set()

        def replaced(value: Any) -> Any:
            found.add(id(value))
            return live.get(id(value), value)

        args, kwargs = tree_map(replaced, (subject.args, dict(subject.kwargs)))
        if not found >= live.keys():
            return None
        alone = replace(session, subject=replace(subject, args=args, kwargs=kwargs))
        try:
            return [alone.results_of(alone.path_step()) for _ in range(2)]
        except TargetError:
            return None

    def _live(self, outputs: Values) -> dict[str, torch.Tensor]:
        with outside_modes():
            return {
                name: value[self._out[name].at(0, self.live)] if name in self._out else value
                for name, value in outputs.items()
            }


def _filled(own: torch.Tensor, other: torch.Tensor, rows: Rows, live: int, fill: str) -> torch.Tensor:
    with outside_modes():
        values = own.clone()
        padding = rows.at(live, None)
        is_float = values.is_floating_point() or values.is_complex()
        if fill == STALE:
            stale = other[padding]
            if not is_float and values.dtype != torch.bool:
                stale = torch.full_like(stale, int(torch.maximum(own.max(), other.max())))
            values[padding] = stale
        elif fill == DUMMY:
            first = values[rows.at(live, live + 1)]
            times = [1] * values.dim()
            times[rows.dimension] = own[padding].shape[rows.dimension] // rows.each
            values[padding] = first.repeat(times)
        elif fill == ZEROS or not is_float:
            values[padding] = 0
        else:
            values[padding] = float("nan")
        return values
