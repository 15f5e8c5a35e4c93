"""The eager twin that replay is compared with: built by itself in a process of its own, and stepped like the subject.

It runs the step along the path that a capture takes: `torch.cuda.is_current_stream_capturing()` answers yes, because
code that asks may take another kernel (masks do), and only then is bit for bit the right question. Where the step
asks, the same steps run as plain eager ones too, and the two have to agree within rounding.

Shared with the capture child: `given.pt` (what construction left, where two builds do not agree on it) and
`reference.pt` (outputs and state of every step, how far eager runs of it lie apart, its first step on new inputs).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from graphsafe.capture.compare import INCOMPARABLE, Check, Difference, Spread, difference
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.job import read_result
from graphsafe.capture.session import (
    FIRST_SEED,
    PAIR,
    REPLAYS,
    Session,
    host_values,
    opened,
    save_values,
)
from graphsafe.capture.state import Snapshot, inputs_of, reach_of
from graphsafe.capture.targets import TargetError

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Asked
    from graphsafe.capture.job import Channel, Job

_GIVEN_BYTES = 256 << 20
"Up to this size all that construction left is shared, not only what is known to differ between builds."
_AGAIN = 3
"Further runs of the same steps: with five steps each, float atomics do not agree in all of them by chance."
_SLOW_RUN = 10.0
"Seconds of a run from which on there is one further run only."
_NUDGES = 2

Step = dict[str, Any]


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        channel.phase("share what construction left")
        session.load_sets()
        start = Snapshot(session.device, session.subject)
        _give(session, start)
        reference = _Reference(session, start)
        save_values(channel, "reference.pt", reference.shared())
        channel.tell(
            varied=reference.varied,
            lazy=reference.lazy,
            lazy_caches=reference.lazy_caches,
            path=reference.path,
        )


def _give(session: Session, start: Snapshot) -> None:
    built = read_result(session.channel.folder, "build").get("digests", {})
    tensors = reach_of(session.subject).tensors
    small = sum(tensor.nbytes for tensor in tensors.values()) <= _GIVEN_BYTES
    differing = [path for path in tensors if small or built.get(path) != start.digests[path]]
    given = {path: tensors[path] for path in differing}
    save_values(
        session.channel,
        "given.pt",
        {"digests": dict(start.digests), "values": host_values(session.device, given)},
    )


class _Reference:
    """The runs that are needed, in order, and what they say of each other."""

    def __init__(self, session: Session, start: Snapshot) -> None:
        self._session = session
        self._start = start
        self.asked: list[Asked] = []
        self.refused: str | None = None
        "Why the step cannot be run eagerly along the path of a capture."
        begun = time.monotonic()
        self.first = self._first_run()
        slow = session.ranks.any(time.monotonic() - begun > _SLOW_RUN)
        again = [self._run(f"eager, run {n + 2}") for n in range(1 if slow else _AGAIN)]
        self.noise = spread_of([self.first, *again])
        self.rounding: Spread | None = None
        self.checks: list[Check] = []
        if session.ranks.any(bool(self.asked or self.refused)):
            self._compare_with_plain()
        control = self._run("the same inputs", vary=False)
        self.varied = sum(
            _moved(self.first.steps[at], control.steps[at], self.noise, self._inputs) for at in range(REPLAYS)
        )
        self.lazy_caches: list[str] = []
        self.lazy, self.first_step = self._first_step()

    @property
    def path(self) -> dict[str, Any]:
        """What is told of the path of captures: who asks for it, and how it compares with plain eager steps."""
        return {
            "asked": [asdict(asked) for asked in dict.fromkeys(self.asked)],
            "refused": self.refused,
            "checks": [check.as_data() for check in self.checks],
        }

    def shared(self) -> dict[str, Any]:
        changed = [path for path in self._start.values if path in self.first.changed]
        return {
            "steps": self.first.steps,
            "noise": self.noise.to_json(),
            "rounding": None if self.rounding is None else self.rounding.to_json(),
            "refused": self.refused,
            "start": {path: self._start.values[path] for path in changed},
            "first_step": self.first_step,
        }

    @property
    def _inputs(self) -> frozenset[str]:
        return frozenset(inputs_of(self._session.subject))

    def _first_run(self) -> _Series:
        """Along the path of captures; as plain steps where that path cannot be run eagerly, but plain ones can."""
        series = _Series(self._session, self._start)
        error = None
        try:
            with self._capture_path():
                series.run("eager, run 1")
        except TargetError as raised:
            error = raised.line
        refusals = [line for line in self._session.ranks.gather(error) if line is not None]
        if not refusals:
            return series
        self._start.put_back()
        plain = _Series(self._session, self._start)
        plain.run("eager, run 1, as if nothing were captured")
        self.refused = error or refusals[0]
        return plain

    def _run(self, name: str, *, vary: bool = True, plain: bool = False, nudge: int | None = None) -> _Series:
        self._start.put_back()
        series = _Series(self._session, self._start, nudge)
        with self._capture_path(plain or self.refused is not None):
            series.run(name, vary)
        return series

    @contextmanager
    def _capture_path(self, plain: bool = False) -> Iterator[None]:
        self._session.capture_path = not plain
        self._session.asked = self.asked.append
        try:
            yield
        finally:
            self._session.capture_path = False

    def _compare_with_plain(self) -> None:
        """Whether the path of captures gives what plain eager steps give, as far as rounding allows."""
        plain = self.first if self.refused else self._run("plain eager steps", plain=True)
        if not self.refused and not self._session.ranks.any(_differ(self.first, plain)):
            self.checks = [_check(name) for name in self.first.steps[0]["outputs"]]
            return
        nudged = [self._run(f"inputs moved by one unit, run {n + 1}", plain=True, nudge=n) for n in range(_NUDGES)]
        self.rounding = Spread(units=self.noise.units)
        for other in nudged:
            add_run(self.rounding, plain, other)
        if not self.refused:
            self.checks = compared(self.first, plain, self.noise, self.rounding)

    def _first_step(self) -> tuple[list[str], dict[str, Any] | None]:
        """The first step on the inputs of replay 1, and what was born in step 1, follows its inputs, and stays."""
        first, session = self.first, self._session
        if not session.ranks.any(bool(first.born or first.filled)):
            return [], None
        session.channel.phase("a first step on new inputs")
        self._start.put_back()
        before = reach_of(session.subject)
        session.put_inputs(1)
        # The seed of the first warm-up step: what was drawn in it must not look like what follows its inputs.
        session.seed(FIRST_SEED)
        outputs = session.outputs_of(session.step())
        follows = _born(session, before.tensors, before.hosts)
        lazy = [
            path
            for path, value in first.born.items()
            if path in follows and follows[path] != value and first.settled.get(path) == value
        ]
        # What a cache keeps cannot be compared; whether it matters shows in the outputs.
        kept = reach_of(session.subject).caches
        self.lazy_caches = [path for path, size in first.filled.items() if path in kept and kept[path][1] == size]
        if not session.ranks.any(bool(lazy or self.lazy_caches)):
            return [], None
        return lazy, {"outputs": host_values(session.device, outputs.tensors), "hosts": dict(outputs.hosts)}


@dataclass
class _Series:
    """Warm-up, then one step a replay, then two steps without seeding in between."""

    _session: Session
    _start: Snapshot
    _nudge: int | None = None
    "With a number, the parameters and every set of inputs are moved by one unit in the last place, this way or that."
    steps: list[Step] = field(default_factory=list)
    born: dict[str, str] = field(default_factory=dict)
    "Attribute born in step 1 -> its value then, as a digest."
    filled: dict[str, int] = field(default_factory=dict)
    "Caches of functions that were empty before step 1 -> how many results they keep after it."
    settled: dict[str, str] = field(default_factory=dict)
    "The same attributes at the end of the series."
    changed: set[str] = field(default_factory=set)

    def run(self, name: str, vary: bool = True) -> None:
        session = self._session
        before = reach_of(session.subject)
        if self._nudge is not None:
            self._move(path for path, tensor in before.tensors.items() if _is_parameter(tensor))
        if session.job.warmup:
            session.seed(FIRST_SEED)
            session.step()
            self.born = _born(session, before.tensors, before.hosts)
            caches = reach_of(session.subject).caches
            self.filled = {
                path: size for path, (_, size) in caches.items() if size and before.caches.get(path, (None, 1))[1] == 0
            }
        session.warm_up(done=1)
        session.channel.phase(name)
        warm = _digests(session)
        for k in range(1, REPLAYS + 1):
            self._inputs(k, vary)
            self._step(warm)
        self._inputs(PAIR, vary)
        self._step(warm)
        self._step(warm)
        self.settled = {**reach_of(session.subject).hosts, **_digests(session)}

    def _inputs(self, k: int, vary: bool) -> None:
        if vary:
            self._session.put_inputs(k)
        else:
            self._session.seed(k)
        if self._nudge is not None:
            self._move(inputs_of(self._session.subject))

    def _move(self, paths: Any) -> None:
        tensors = reach_of(self._session.subject).tensors
        for number, path in enumerate(paths):
            if path in tensors:
                self._session.device.nudge(tensors[path], up=(number + (self._nudge or 0)) % 2 == 0)

    def _step(self, warm: dict[str, str]) -> None:
        session = self._session
        before = session.offset()
        outputs = session.outputs_of(session.path_step())
        after = session.offset()
        state = _digests(session)
        tensors = reach_of(session.subject).tensors
        moved = {path: tensors[path] for path, digest in state.items() if warm.get(path) != digest}
        self.changed |= {path for path, digest in state.items() if self._start.digests.get(path) != digest}
        self.steps.append(
            {
                "outputs": host_values(session.device, outputs.tensors),
                "hosts": dict(outputs.hosts),
                "state": state,
                "values": host_values(session.device, moved),
                "advance": None if before is None or after is None else after - before,
            }
        )


def spread_of(runs: list[_Series]) -> Spread:
    """How far runs of the same steps lie apart."""
    spread = Spread()
    for left, right in itertools.combinations(runs, 2):
        add_run(spread, left, right)
    return spread


def add_run(spread: Spread, left: _Series, right: _Series) -> None:
    with outside_modes():
        for one, other in zip(left.steps, right.steps, strict=True):
            for name, value in one["outputs"].items():
                spread.add(name, value, other["outputs"].get(name))
            for path in _apart(one["state"], other["state"]):
                spread.add(path, one["values"].get(path), other["values"].get(path))
            spread.unbounded |= _apart(one["hosts"], other["hosts"])


def compared(path: _Series, plain: _Series, noise: Spread, rounding: Spread) -> list[Check]:
    """The steps along the path of captures against plain eager ones: outputs, and the state that differs."""
    checks: dict[str, Check] = {}

    def add(name: str, step: int, apart: Difference, value: torch.Tensor | None) -> None:
        check = checks.setdefault(name, _check(name))
        plain_name = name.removeprefix("state ")
        floor = None if plain_name in noise.unbounded else 0.0 if value is None else noise.bound(plain_name, value)
        # What one unit in the last place moves without bound (an argmax) says nothing about the path.
        moved = None if value is None else rounding.bound(plain_name, value)
        check.add(step, apart, None if plain_name in rounding.unbounded else floor, moved)

    with outside_modes():
        for number, (one, other) in enumerate(zip(path.steps, plain.steps, strict=True), start=1):
            for name, value in other["outputs"].items():
                ours = one["outputs"].get(name)
                add(name, number, INCOMPARABLE if ours is None else difference(ours, value), value)
            for name in one["hosts"].keys() | other["hosts"].keys():
                same = one["hosts"].get(name) == other["hosts"].get(name)
                add(name, number, Difference(same, 0.0 if same else None), None)
            for name in sorted(_apart(one["state"], other["state"])):
                ours, value = one["values"].get(name), other["values"].get(name)
                apart = INCOMPARABLE if ours is None or value is None else difference(ours, value)
                add(f"state {name}", number, apart, value)
    return list(checks.values())


def _check(name: str) -> Check:
    return Check(f"{name} along the path of captures", compares="plain eager")


def _differ(left: _Series, right: _Series) -> bool:
    with outside_modes():
        for one, other in zip(left.steps, right.steps, strict=True):
            if one["state"] != other["state"] or one["hosts"] != other["hosts"]:
                return True
            if one["outputs"].keys() != other["outputs"].keys():
                return True
            if any(not difference(value, other["outputs"][name]).equal for name, value in one["outputs"].items()):
                return True
    return False


def _apart(left: Mapping[str, str], right: Mapping[str, str]) -> set[str]:
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def _is_parameter(tensor: torch.Tensor) -> bool:
    import torch

    return isinstance(tensor, torch.nn.Parameter)


def _digests(session: Session) -> dict[str, str]:
    return session.device.digests(reach_of(session.subject).tensors)


def _moved(varied: Step, control: Step, noise: Spread, inputs: frozenset[str]) -> bool:
    """Whether the changed inputs changed an output, or state that is not an input, beyond what chance does."""
    with outside_modes():
        for path, value in varied["outputs"].items():
            if path in control["outputs"] and difference(value, control["outputs"][path]).is_beyond(
                noise.bound(path, value)
            ):
                return True
        for path in _apart(varied["state"], control["state"]) - inputs - noise.unbounded:
            value, other = varied["values"].get(path), control["values"].get(path)
            if value is None or other is None or difference(value, other).is_beyond(noise.bound(path, value)):
                return True
    return bool(_apart(varied["hosts"], control["hosts"]) - noise.unbounded)


def _born(session: Session, tensors: Any, hosts: dict[str, str]) -> dict[str, str]:
    """What step 1 made out of nothing: missing before, or None, and now a tensor or a value."""
    after = reach_of(session.subject)
    new = {path: one for path, one in after.tensors.items() if path not in tensors and not path.endswith(".grad")}
    born: dict[str, str] = session.device.digests(new)
    for path, value in after.hosts.items():
        if path not in tensors and hosts.get(path, "None") == "None" and value != "None":
            born[path] = value
    return born
