"""The eager twin that replay is compared with: built by itself in a process of its own, and stepped like the subject.

Shared with the capture child: `given.pt` (what construction left, where two builds do not agree on it) and
`reference.pt` (outputs and state of every step, how far eager series of it lie apart, its first step on new inputs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphsafe.capture.compare import difference, floor_of
from graphsafe.capture.job import read_result
from graphsafe.capture.session import (
    FIRST_SEED,
    PAIR,
    REPLAYS,
    Session,
    host_values,
    opened,
    outside_modes,
    save_values,
)
from graphsafe.capture.state import Snapshot, reach_of

if TYPE_CHECKING:
    from graphsafe.capture.job import Channel, Job

_GIVEN_BYTES = 256 << 20
"Up to this size all that construction left is shared, not only what is known to differ between builds."

Step = dict[str, Any]


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        channel.phase("share what construction left")
        session.load_sets()
        start = Snapshot(session.device, session.subject)
        _give(session, start)
        first = _Series(session, start)
        first.run("reference")
        again = [_again(session, start, f"reference, again {n}") for n in (1, 2)]
        control = _again(session, start, "the same inputs", vary=False)
        floors = [_floors([first.steps[j], again[0].steps[j], again[1].steps[j]]) for j in range(len(first.steps))]
        lazy, first_step = _first_step(session, start, first)
        changed = [path for path in start.values if path in first.changed]
        save_values(
            channel,
            "reference.pt",
            {
                "steps": first.steps,
                "floors": floors,
                "start": {path: start.values[path] for path in changed},
                "first_step": first_step,
            },
        )
        channel.tell(
            varied=sum(_moved(first.steps[j], control.steps[j], floors[j]) for j in range(REPLAYS)),
            lazy=lazy,
            stable=all(floor is not None for step in floors for floor in step.values()),
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


class _Series:
    """Warm-up, then one step a replay, then two steps without seeding in between."""

    def __init__(self, session: Session, start: Snapshot) -> None:
        self._session = session
        self._start = start
        self.steps: list[Step] = []
        self.born: dict[str, str] = {}
        "Attribute born in step 1 -> its value then, as a digest."
        self.settled: dict[str, str] = {}
        "The same attributes at the end of the series."
        self.changed: set[str] = set()

    def run(self, name: str, vary: bool = True) -> None:
        session = self._session
        before = reach_of(session.subject)
        if session.job.warmup:
            session.seed(FIRST_SEED)
            session.step()
            self.born = _born(session, before.tensors, before.hosts)
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

    def _step(self, warm: dict[str, str]) -> None:
        session = self._session
        before = session.offset()
        outputs = session.outputs_of(session.step())
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


def _again(session: Session, start: Snapshot, name: str, vary: bool = True) -> _Series:
    start.put_back()
    series = _Series(session, start)
    series.run(name, vary)
    return series


def _digests(session: Session) -> dict[str, str]:
    return {path: session.device.digest(tensor) for path, tensor in reach_of(session.subject).tensors.items()}


def _floors(steps: list[Step]) -> dict[str, float | None]:
    """By output and state name, for one step of several series."""
    with outside_modes():
        floors = floor_of(step["outputs"] for step in steps)
        for path, digest in steps[0]["state"].items():
            if any(step["state"].get(path) != digest for step in steps):
                floors |= floor_of({path: step["values"][path]} if path in step["values"] else {} for step in steps)
                floors.setdefault(path, None)
    for path, value in steps[0]["hosts"].items():
        if any(step["hosts"].get(path) != value for step in steps):
            floors[path] = None
    return floors


def _moved(varied: Step, control: Step, floors: dict[str, float | None]) -> bool:
    """Whether the changed inputs changed an output, or state that is not an input, beyond what chance does."""
    with outside_modes():
        for path, value in varied["outputs"].items():
            if path in control["outputs"] and _beyond(value, control["outputs"][path], floors.get(path)):
                return True
    return any(
        digest != control["state"].get(path)
        for path, digest in varied["state"].items()
        if not path.startswith(("args", "kwargs")) and path not in floors
    )


def _beyond(left: Any, right: Any, floor: float | None) -> bool:
    apart = difference(left, right)
    return not apart.equal and floor is not None and (apart.largest is None or apart.largest > floor)


def _born(session: Session, tensors: Any, hosts: dict[str, str]) -> dict[str, str]:
    """What step 1 made out of nothing: missing before, or None, and now a tensor or a value."""
    after = reach_of(session.subject)
    born = {
        path: session.device.digest(tensor)
        for path, tensor in after.tensors.items()
        if path not in tensors and not path.endswith(".grad")
    }
    for path, value in after.hosts.items():
        if path not in tensors and hosts.get(path, "None") == "None" and value != "None":
            born[path] = value
    return born


def _first_step(session: Session, start: Snapshot, first: _Series) -> tuple[list[str], dict[str, Any] | None]:
    """The first step on the inputs of replay 1, and what was born in step 1, follows its inputs, and stays as it is."""
    if not first.born:
        return [], None
    session.channel.phase("a first step on new inputs")
    start.put_back()
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
    if not lazy:
        return [], None
    return lazy, {"outputs": host_values(session.device, outputs.tensors), "hosts": dict(outputs.hosts)}
