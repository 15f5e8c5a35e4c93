"""Notes the path that each eager round takes. Also notes the results that depend on the operations in which this path
differs from the usual path.

The paths of further steps (`horizon.py`) may differ from the captured one. Rounds prove that such a path computes the
same as the captured one under two conditions: an eager round takes the path, and the round's results can show a
difference. A maximum, for example, often stays the same although its inputs differ.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.child.compare import difference
from graphsafe.capture.child.expected import Expected
from graphsafe.capture.child.lines.operations import PathSeen, address_of, calls_of, name_of_path, unlike
from graphsafe.capture.child.session import Session
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.shared.job import read_answers
from graphsafe.report.probes.horizon import Horizon


@dataclass(frozen=True, slots=True)
class Taken:
    """The path of one round."""

    path: str = ""
    "The name of the path; empty if it is not known."
    is_other: bool = False
    "Whether this is not the path of the captured step, but is a path that some further step took."
    written: Set[str] = frozenset()
    "The state that the step wrote in place."
    differing: Set[str] | None = frozenset()
    """The results that depend on an operation in which this path differs from the usual path. None if these results are
    not known."""

    def is_shown(self, values: Mapping[str, torch.Tensor], hashed: Mapping[str, torch.Tensor]) -> bool:
        """Return whether a small error in the operations in which the paths differ would change the results. `values`
        are compared by value, `hashed` only by hashes. Return True if no result depends on these operations."""
        if self.differing is None:
            return False
        found = [is_fine(values[name]) for name in self.differing & values.keys()]
        found += [hashed[name].is_floating_point() for name in self.differing & hashed.keys()]
        return not self.differing or any(found)


class PathWatch:
    """Records the paths of rounds. Only steps inside the context `watched()` are recorded."""

    def __init__(self, session: Session) -> None:
        horizon = read_answers(session.channel.folder, "step")[Horizon]
        self._session = session
        self._others = {one.path for one in horizon.paths}
        self._varying = frozenset(horizon.varying)
        self._seen = PathSeen(session.is_on_gpu)
        self._steady: tuple[PathSeen, list[str], dict[str, int]] | None = None
        """For a round that took the usual path of further steps: its operations, its calls, and the addresses of its
        results."""
        self.is_needed = bool(self._others)
        "Whether further steps have taken other paths."

    def watched(self) -> PathSeen:
        self._seen = PathSeen(self._session.is_on_gpu)
        return self._seen

    def taken(self, outputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> Taken:
        """Return the path of the step that was watched last. `outputs` and `state` are the tensors after this step."""
        results = {name: address_of(tensor) for name, tensor in (*state.items(), *outputs.items())}
        calls = calls_of(self._seen.operations, self._varying)
        path, memory = name_of_path(calls), self._seen.written()
        written = {name for name in state if results[name] in memory}
        if path not in self._others:
            self._steady = self._steady or (self._seen, calls, results)
            return Taken(path, written=written)
        if self._steady is None:
            return Taken(path, True, written, None)
        steady, steady_calls, steady_results = self._steady
        before, after = unlike(steady_calls, calls)
        differing = _reached(steady, before, steady_results) | _reached(self._seen, after, results)
        return Taken(path, True, written, differing)


def _reached(seen: PathSeen, part: range, results: Mapping[str, int]) -> set[str]:
    """Return the results that depend on a part of the operations. `results` has the addresses of their memory."""
    memory = seen.reached_from(part)
    return {name for name, address in results.items() if address in memory}


def can_compare_continued(session: Session, reference: Expected) -> bool:
    """Return whether continued rounds can be compared. Tiny differences grow in such rounds, and the simulated device
    rounds differently if memory is aligned differently."""
    return reference.repeats and session.device.evidence == "measured"


def has_compiled() -> bool:
    """Return whether Dynamo has compiled functions. While such functions are watched, Dynamo would compile them
    again."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["frames"])


def instruments_change(session: Session, reference: Expected, outputs: Mapping[str, torch.Tensor]) -> bool:
    """Return whether the outputs of a watched step on the inputs of replay 1 differ from those of the reference.
    Compiled functions, for example, may use other kernels while they are watched."""
    if not can_compare_continued(session, reference):
        return False
    expected = reference.steps[0].outputs
    return any(not difference(outputs.get(path), value).equal for path, value in expected.items())


def is_fine(values: torch.Tensor) -> bool:
    """Return whether small changes would be visible in these host values: some of them must be floats that are not
    whole numbers."""
    if not values.is_floating_point() and not values.is_complex():
        return False
    with outside_modes():
        wide = (torch.view_as_real(values.resolve_conj()) if values.is_complex() else values).double()
        return bool((wide.isfinite() & (wide != wide.round())).any())
