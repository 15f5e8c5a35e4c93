"""Two captures of one step, some steps apart: where they are not the same graph, Python froze something that changes.

No values are compared for that, so nothing has to be varied, and it holds for what no reference can repeat (a clock).
Another kernel or another size decides by itself. Another number or address decides only if the two graphs also compute
something else from the same state: bytes between the arguments of a kernel may differ without meaning anything.

What changed is then found by trial: the state that steps changed is put back, first all of it, then piece by piece, and
the step captured again. The piece that makes the difference go away is the cause.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from graphsafe.capture.compare import Spread, difference
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import CaptureFailure, NotComparable
from graphsafe.capture.session import CAPTURE_SEED, REPLAYS, host_values
from graphsafe.capture.state import Bindings, Snapshot, StateError, copies_of, put_back_host, reach_of

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Difference, Recording
    from graphsafe.capture.session import Session
    from graphsafe.capture.state import Reach

Values = Mapping[str, "torch.Tensor"]

_LEAST_CAPTURES = 3
_MOST_CAPTURES = 7
"Python that does something else in one of eight steps is met then."
_SECONDS = 2.0
"After the least number of captures, none is begun later than this."
_MAY_BE_CHANCE = ("scalar", "address")
"Bytes between arguments that nobody wrote hold what was there before: numbers, and addresses of earlier calls."
_MOST_TRIALS = 24
_MOST_NAMED = 4


class _Before:
    """What the step could reach right before a capture, to compare with and to put back."""

    def __init__(self, session: Session) -> None:
        self.reach: Reach = reach_of(session.subject)
        self.bindings = Bindings(self.reach, clear_caches=False)
        # A view stays with the memory that a tensor had, also where the tensor is given other memory (`.data =`).
        with outside_modes():
            self.views = {path: tensor.detach() for path, tensor in self.reach.tensors.items()}


@dataclass(frozen=True, slots=True)
class _Change:
    """Something that steps changed, and how to put it back."""

    kind: Literal["attribute", "tensor", "length"]
    path: str
    before: str | None
    after: str | None


def compare_captures(session: Session, decisive: Recording) -> dict[str, Any]:
    """Capture the step again and again, and compare with the recording that was replayed. Gives the probe `twin` of a
    report, its `causes` beside it. It goes on changing the session's state, and is the last thing a child does with it.

    Nothing is kept of the state before the decisive capture: memory that it reads and nobody owns has to be free for
    others to overwrite.
    """
    # Collecting before each capture is cheap when what is there already is left out.
    gc.collect()
    gc.freeze()
    try:
        return _Twins(session, decisive).run()
    except NotComparable as error:
        return {"status": "skipped", "reason": str(error)}


class _Twins:
    def __init__(self, session: Session, decisive: Recording) -> None:
        self._session = session
        self._captures = 1
        self._opaque = bool(decisive.opaque_nodes())
        self._before = _Before(session)
        self._decisive = decisive
        self._first: Recording = decisive
        "What later captures are compared with: the one after the decisive one, whose state and seed are known."
        self._seed = CAPTURE_SEED

    def run(self) -> dict[str, Any]:
        ranks = self._session.ranks
        begun = time.monotonic()
        unlike: list[Difference] = []
        ineffective: dict[Key, Difference] = {}
        while self._captures <= _MOST_CAPTURES:
            late = self._captures > _LEAST_CAPTURES and time.monotonic() - begun > _SECONDS
            if ranks.any(late):
                break
            self._session.channel.phase(f"capture {self._captures + 1}, to compare")
            start = _Before(self._session)
            seed = CAPTURE_SEED + self._captures
            again = self._record(seed)
            failed = ranks.any(isinstance(again, CaptureFailure))
            if isinstance(again, CaptureFailure):
                return self._not_again(again)
            if failed:
                return {**self._answer("skipped", ()), "reason": "another rank could not capture the step again"}
            found = [one for one in self._first.differences(again) if not _is_of_ranks(one)]
            frozen = [one for one in found if one.what not in _MAY_BE_CHANCE]
            if not ranks.any(bool(frozen)):
                frozen = self._with_effect(found, again)
            if ranks.any(bool(frozen)) and self._first is not self._decisive:
                again.release()
                return (
                    self._answer("fail", *self._explained(frozen, start, seed)) if frozen else self._answer("pass", ())
                )
            if self._first is self._decisive:
                unlike, self._first, self._seed = frozen, again, seed
            else:
                again.release()
            ineffective = {**{_key(one): one for one in found}, **ineffective}
        if unlike:
            return self._answer("fail", unlike, elsewhere="elsewhere")
        chance = self._chance() if ineffective else set()
        return self._answer("pass", [one for key, one in ineffective.items() if key not in chance])

    def _answer(
        self, status: str, found: Sequence[Difference], causes: Sequence[_Change] = (), elsewhere: str | None = None
    ) -> dict[str, Any]:
        return {
            "status": status,
            "captures": self._captures,
            # What the driver does not show cannot be said to agree.
            "agree": status == "pass" and not found and not self._opaque,
            "differences": [asdict(one) for one in found],
            "causes": [asdict(one) for one in causes],
            "elsewhere": elsewhere,
        }

    def _not_again(self, failure: CaptureFailure) -> dict[str, Any]:
        """The step was captured once and cannot be captured again; memory that runs out says nothing of the step."""
        short = "out of memory" in failure.message.lower() or failure.error_type == "OutOfMemoryError"
        why = f"a second capture failed: {failure.error_type}: {failure.message}"
        return {**self._answer("skipped" if short else "fail", ()), "reason": why, "first_error": asdict(failure)}

    def _record(self, seed: int, traced: bool = False) -> Recording | CaptureFailure:
        self._session.seed(seed)
        self._captures += 1
        with uncollected():
            return self._session.device.record(self._session.subject, traced)

    def _with_effect(self, differing: Sequence[Difference], second: Recording) -> list[Difference]:
        """The differing numbers and addresses, if the two graphs compute different things with them. Of several ranks,
        one at a time replays its second graph: what another rank has frozen reaches this one too."""
        session = self._session
        ranks = session.ranks
        left = [rank for rank, differs in enumerate(ranks.gather(bool(differing))) if differs]
        if not left:
            return []
        session.channel.phase("replay both captures")
        snapshot = Snapshot(session.device, session.subject, clear_caches=False)
        noise = Spread()
        effective: list[Difference] = []
        try:
            for k in range(1, REPLAYS + 1):
                for rank in tuple(left):
                    third = second if rank == ranks.number else self._first
                    one, again, other = (
                        self._result(recording, snapshot, k) for recording in (self._first, self._first, third)
                    )
                    if ranks.any(self._compute_different(one, again, other, noise)):
                        left.remove(rank)
                        effective = list(differing) if rank == ranks.number else effective
            snapshot.put_back()
        except StateError:
            return []
        return effective

    def _compute_different(self, one: Values, again: Values, other: Values, noise: Spread) -> bool:
        """Whether the results of two graphs lie further apart than those of one of them do (`one`, `again`)."""
        for name, (ours, theirs) in self._unlike(one, again).items():
            with outside_modes():
                noise.add(name, ours, theirs)
        for name, (ours, theirs) in self._unlike(one, other).items():
            if ours is None:
                continue
            if theirs is None:
                return True
            with outside_modes():
                apart, floor = difference(ours, theirs), noise.bound(name, ours)
                far = apart.largest is None or floor is None or apart.largest > floor
                if not apart.equal and far and name not in noise.unbounded:
                    return True
        return False

    def _unlike(self, one: Values, other: Values) -> dict[str, tuple[torch.Tensor | None, torch.Tensor | None]]:
        """On the host, what is not the same byte for byte; None where there is no such value."""
        device = self._session.device
        ours, theirs = device.digests(one), device.digests(other)
        names = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
        first, second = (
            host_values(device, {name: found[name] for name in names if name in found}) for found in (one, other)
        )
        return {name: (first.get(name), second.get(name)) for name in sorted(names)}

    def _result(self, recording: Recording, snapshot: Snapshot, k: int) -> Values:
        """Copies of the outputs and the changed state of one replay from the snapshot on the inputs of replay `k`."""
        session = self._session
        snapshot.put_back()
        session.put_inputs(k)
        recording.replay()
        session.device.synchronize()
        outputs = session.outputs_of(recording.outputs).tensors
        state = {f"state {path}": snapshot.tensors[path] for path in snapshot.changed()}
        found = {**outputs, **state}
        return dict(zip(found, copies_of(session.device, list(found.values())), strict=True))

    def _explained(
        self, found: list[Difference], start: _Before, seed: int
    ) -> tuple[list[Difference], list[_Change], str | None]:
        """The differences with their places, and what caused them: changes of state, or else where to look."""
        session = self._session
        session.channel.phase("find what changed")
        start.bindings.put_back()
        traced = self._record(seed, traced=True)
        if isinstance(traced, CaptureFailure):
            return found, [], None
        placed = {_key(one): one for one in self._first.differences(traced)}
        traced.release()
        found = [replace(one, **_place(placed.get(_key(one), one))) for one in found]
        chance = self._chance()
        decided = [one for one in found if _key(one) not in chance]
        if not decided:
            return self._outside_bindings(found, start, seed)
        # Bytes that nobody wrote are other ones at times; what state makes different is so each time from that state.
        always = self._differing(lambda: None, start, seed)
        decided = [one for one in decided if always is None or _key(one) in always] or decided
        keys = {_key(one) for one in decided}
        if self._gone(keys, lambda: None, start, self._seed):
            return decided, [], "host-random"
        changes = _changes(self._before, start)[:_MOST_TRIALS]
        causes = [change for change in changes if self._gone(keys, partial(self._put_back, change, start), start, seed)]
        if causes:
            return decided, causes, None
        # Only together: two buffers that change places. They are of one kind, which the difference tells.
        likely = "tensor" if any(one.what == "address" for one in decided) else "attribute"
        return decided, [change for change in changes if change.kind == likely][:_MOST_NAMED] or changes[:1], None

    def _chance(self) -> set[Key]:
        """What differs though the state and the seed are the same: bytes between arguments that nobody wrote, a clock,
        and what bindings cannot put back."""
        return self._differing(lambda: None, self._before, self._seed) or set()

    def _outside_bindings(
        self, found: list[Difference], start: _Before, seed: int
    ) -> tuple[list[Difference], list[_Change], str | None]:
        """Nothing that can be put back makes the difference: memory that was swapped behind a tensor, else a clock."""
        swapped = [change for change in _changes(self._before, start) if change.kind == "tensor"][:_MOST_NAMED]
        for one in [one for one in found if one.what == "address"][:_MOST_NAMED]:
            key = {_key(one)}
            causes = [change for change in swapped if self._gone(key, partial(self._swap, change, start), start, seed)]
            if causes:
                return [one], causes, None
        return found, [], "elsewhere"

    def _swap(self, change: _Change, start: _Before) -> None:
        """Give a tensor the memory back that it had, where the tensor stayed and its memory did not."""
        with outside_modes():
            start.reach.tensors[change.path].data = self._before.views[change.path]

    def _put_back(self, change: _Change, start: _Before) -> None:
        """This change alone, as it was before the first capture."""
        earlier = self._before.reach
        if change.kind == "attribute":
            put_back_host(start.reach, change.path, earlier.values[change.path])
        elif change.kind == "tensor":
            put_back_host(start.reach, change.path, earlier.tensors[change.path])
        else:
            self._before.bindings.put_back_container(change.path)

    def _gone(self, keys: set[Key], change: Callable[[], None], start: _Before, seed: int) -> bool:
        """Whether the differences go away when the step is captured again after `change`."""
        left = self._differing(change, start, seed)
        return left is not None and not left & keys

    def _differing(self, change: Callable[[], None], start: _Before, seed: int) -> set[Key] | None:
        """How a capture from the state `start` and after `change` differs from the first; None where there is none."""
        start.bindings.put_back()
        try:
            change()
        except (StateError, RuntimeError):  # a container that refuses: this piece cannot be tried
            return None
        again = self._record(seed)
        if isinstance(again, CaptureFailure):
            return None
        keys = {_key(one) for one in self._first.differences(again)}
        again.release()
        return keys


def _is_of_ranks(one: Difference) -> bool:
    """In the arguments of NCCL's kernels, which hold its own count of what it has launched. Where they make a
    difference, another rank may be the reason."""
    return one.op.startswith("nccl") and one.what in _MAY_BE_CHANCE


Key = tuple[int, str, int]


def _key(one: Difference) -> Key:
    return one.node, one.what, one.argument


def _place(one: Difference) -> dict[str, Any]:
    return {"op": one.op, "frames": one.frames, "span": one.span}


def _changes(earlier: _Before, later: _Before) -> list[_Change]:
    """What changed between two captures: host values, tensors in other memory, containers of another length."""
    before, after = earlier.reach, later.reach
    found = [
        _Change("attribute", path, before.hosts[path], text)
        for path, text in after.hosts.items()
        if path in before.values and path in after.owners and before.hosts.get(path) != text
    ]
    found += [
        _Change("tensor", path, None, None)
        for path, view in later.views.items()
        if path in earlier.views and path in after.owners and _memory(earlier.views[path]) != _memory(view)
    ]
    found += [
        _Change("length", path, str(before.lengths[path]), str(length))
        for path, length in after.lengths.items()
        if path in before.sized and before.lengths[path] != length
    ]
    return found


def _memory(tensor: Any) -> tuple[int, int, int]:
    return tensor.data_ptr(), tensor.storage_offset(), tensor.numel()


@contextmanager
def uncollected() -> Iterator[None]:
    """Garbage that is collected in the middle of one capture and not of the other gives its blocks back in between, and
    the two lay their pools out differently."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
