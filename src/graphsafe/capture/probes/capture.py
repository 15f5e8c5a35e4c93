"""The plain attempt: warm up on the capture stream, capture, replay on changed inputs, compare with the reference.

Nothing here is instrumented, because an instrument changes the program; this child decides, the others explain.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from graphsafe.capture.compare import INCOMPARABLE, Check, Difference, Spread, difference
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import CaptureFailure
from graphsafe.capture.probes.twin import compare_captures
from graphsafe.capture.ranks.issued import CAPTURE
from graphsafe.capture.session import (
    CAPTURE_SEED,
    FIRST_SEED,
    PAIR,
    REPLAYS,
    Session,
    load_values,
    opened,
)
from graphsafe.capture.state import reach_of
from graphsafe.capture.targets import TargetError, describe, users_code

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Recording
    from graphsafe.capture.job import Channel, Job

GONE = "reference.gone"
"The file by which the parent says that there will be no reference."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        session.load_sets()
        built = reach_of(session.subject).tensors
        channel.phase("wait for the reference to be built")
        unmatched = take_over(session, built)
        channel.tell(unmatched=unmatched)
        with session.device.capture_stream():
            session.warm_up()
        channel.tell(capture={"status": "skipped", "phase": "capture", "reason": "the attempt did not end"})
        session.seed(CAPTURE_SEED)
        gc.collect()
        channel.phase(CAPTURE)
        answer = session.device.record(session.subject)
        channel.tell(capture=_captured(session, answer))
        if not isinstance(answer, CaptureFailure):
            channel.tell(escaped=[*(asdict(event) for event in answer.escaped()), *session.ranks.issued.beside])
        others = session.ranks.gather(isinstance(answer, CaptureFailure))
        if isinstance(answer, CaptureFailure):
            return
        if any(others):
            why = f"rank {others.index(True)} could not capture the step"
            channel.tell(replay={"status": "skipped", "reason": why, "checks": []})
            return
        if session.ranks.any(not answer.nodes()):
            channel.tell(replay={"status": "skipped", "reason": "there is nothing in the graph", "checks": []})
            return
        channel.tell(twin={"status": "crashed", "reason": "it was not reached"})
        _replay(session, answer, unmatched, built)
        channel.tell(twin={"status": "crashed", "reason": "the process died while capturing the step again"})
        channel.tell(twin=compare_captures(session, answer))


def _replay(session: Session, recording: Recording, unmatched: list[str], built: Mapping[str, torch.Tensor]) -> None:
    session.channel.phase("wait for the reference")
    reference = reference_of(session)
    if session.ranks.any(reference is None or bool(unmatched)) or reference is None:
        why = "two builds of the target differ in " + ", ".join(unmatched[:3]) if unmatched else "no reference"
        session.channel.tell(replay={"status": "skipped", "reason": why, "reference": None, "checks": []})
        return
    session.channel.tell(replay={"status": "skipped", "reference": "independent", "reason": "the replays did not end"})
    Replays(session, recording, reference).run(built)


def take_over(session: Session, built: Mapping[str, torch.Tensor]) -> list[str]:
    """Start from the values that the reference started from; what cannot be matched is returned."""
    path = _wait_for(session, "given.pt")
    if path is None:
        return []
    given = load_values(path)
    unmatched = []
    digests = session.device.digests(built)
    for name, tensor in built.items():
        if digests[name] == given["digests"].get(name):
            continue
        if name not in given["values"]:
            unmatched.append(name)
            continue
        session.device.store(tensor, given["values"][name])
    return unmatched


def _wait_for(session: Session, name: str) -> Any:
    folder = session.channel.folder
    while not (folder / name).exists():
        if (folder / GONE).exists():
            return None
        time.sleep(0.02)
    return folder / name


def reference_of(session: Session) -> Mapping[str, Any] | None:
    path = _wait_for(session, "reference.pt")
    return None if path is None else load_values(path)


def given_reference(session: Session) -> tuple[Mapping[str, torch.Tensor], Mapping[str, Any]] | None:
    """The tensors that construction left, with the reference's values, and the reference; None where replays cannot be
    compared with one. For children that replay something else than the plain capture."""
    session.load_sets()
    built = reach_of(session.subject).tensors
    unmatched = take_over(session, built)
    reference = reference_of(session)
    return None if reference is None or unmatched else (built, reference)


def _captured(session: Session, answer: Recording | CaptureFailure) -> dict[str, Any]:
    unknown = list(session.device.unknown_operations())
    if isinstance(answer, CaptureFailure):
        error = asdict(answer)
        return {"status": "fail", "phase": "capture", "nodes": {}, "first_error": error, "unknown_operations": unknown}
    nodes = dict(answer.nodes())
    return {
        "status": "pass",
        "phase": "capture",
        "nodes": nodes,
        "empty": not nodes,
        "misses_work": True if answer.escaped() or session.ranks.issued.beside else None,
        "first_error": None,
        "unknown_operations": unknown,
        "pool_bytes": answer.pool_bytes(),
    }


class Replays:
    """Replays of a recording on changed inputs, each compared with the same step of the reference."""

    def __init__(
        self,
        session: Session,
        recording: Recording,
        reference: Mapping[str, Any],
        restart: Callable[[], None] = lambda: None,
    ) -> None:
        """`restart` puts back what else of the state of construction a replay may look at; a plain graph reads memory
        alone."""
        self._session = session
        self._recording = recording
        self._restart = restart
        self._reference = reference
        self._noise = Spread.from_json(reference["noise"])
        self._rounding = Spread.from_json(reference["rounding"]) if reference["rounding"] else None
        self._plain = bool(reference["refused"])
        "Whether what is compared with are plain eager steps: rounding is allowed then."
        self._checks: dict[str, Check] = {}
        self._law: dict[str, Any] = {}
        self.result: dict[str, Any] = {}
        "The probe `replay`, when they were run."
        self.error: Exception | None = None
        "What a replay raised."

    def against(self, what: str) -> str | None:
        """Why replays of `what`, as a reason calls it, do not do what eager steps do; None where they do."""
        if self.error is not None:
            return f"a replay of {what} failed: {describe(self.error)}"
        if not self.result.get("checks"):
            return "nothing could be compared with the reference"
        if self.different:
            return f"replays of {what} differ from the reference in {', '.join(self.different[:3])}"
        if self.result["rng_law"] not in ("pass", "skipped"):
            return f"replays of {what} do not draw the random numbers that eager steps draw"
        return None

    @property
    def different(self) -> list[str]:
        """Outputs and state that differ, or cannot be compared."""
        checks = self.result.get("checks") or ()
        return [check["name"] for check in checks if check["result"] in ("different", None)]

    def run(self, built: Mapping[str, torch.Tensor], first_step: bool = True) -> None:
        """`built`: the tensors that construction left; `first_step`: whether one is compared where the step is lazy."""
        session = self._session
        try:
            for k in range(1, REPLAYS + 1):
                session.channel.phase(f"replay {k}")
                session.put_inputs(k)
                self._replay()
                self._compare(k)
            session.channel.phase("two replays without seeding")
            session.put_inputs(PAIR)
            pair = []
            for k in (PAIR, PAIR + 1):
                advance = self._replay()
                pair.append((advance, self._output_digests()))
                self._compare(k)
            law = self._rng_law(pair)
        except TargetError:
            raise
        except Exception as error:
            self.error = error
            self.result = {
                "status": "fail",
                "reference": "independent",
                "checks": self._check_data(),
                "first_error": {"message": describe(error)},
            }
            session.channel.tell(replay=self.result)
            return
        self.result = result = {
            "reference": "independent",
            "checks": self._check_data(),
            "rng_law": law,
            "rng": self._law,
        }
        differs = any(check.result == "different" for check in self._checks.values())
        result["status"] = "fail" if differs or law == "fail" else "pass"
        lazy = first_step and self._reference["first_step"] is not None
        result["first_step"] = "crashed" if lazy else "skipped"
        session.channel.tell(replay=result)
        if lazy:
            session.channel.phase("a first step put back")
            result["first_step"] = self._first_step(built)
            session.channel.tell(replay=result)

    def _replay(self) -> int | None:
        """One replay into poisoned outputs, after the allocator was stirred; how far the generator moved."""
        session, device = self._session, self._session.device
        device.churn()
        kept = {_storage(tensor) for tensor in reach_of(session.subject).tensors.values()}
        for tensor in session.outputs_of(self._recording.outputs).tensors.values():
            if _storage(tensor) not in kept and device.is_on_device(tensor):
                device.poison(tensor)
        before = session.offset()
        self._recording.replay()
        device.synchronize()
        after = session.offset()
        return None if before is None or after is None else after - before

    def _output_digests(self) -> dict[str, str]:
        tensors = self._session.outputs_of(self._recording.outputs).tensors
        return self._session.device.digests(tensors)

    def _compare(self, k: int) -> None:
        session, expected = self._session, self._reference["steps"][k - 1]
        outputs = session.outputs_of(self._recording.outputs)
        self._outputs(k, outputs, expected)
        tensors = reach_of(session.subject).tensors
        digests = session.device.digests({path: tensors[path] for path in expected["state"] if path in tensors})
        for path, digest in expected["state"].items():
            value = expected["values"].get(path)
            if path not in tensors:
                self._add(f"state {path}", k, INCOMPARABLE, value)
            elif digests[path] != digest:
                apart = INCOMPARABLE if value is None else self._apart(tensors[path], value)
                self._add(f"state {path}", k, apart, value)
            else:
                self._checks.setdefault(f"state {path}", Check(f"state {path}"))

    def _outputs(self, k: int, outputs: Any, expected: Mapping[str, Any]) -> None:
        for path, value in expected["outputs"].items():
            apart = self._apart(outputs.tensors[path], value) if path in outputs.tensors else INCOMPARABLE
            self._add(path, k, apart, value)
        for path in outputs.unreadable:
            self._checks[path] = Check(path, None, False, None, None)
        for path, text in expected["hosts"].items():
            same = outputs.hosts.get(path) == text
            self._add(path, k, Difference(same, 0.0 if same else None), None)

    def _apart(self, tensor: torch.Tensor, value: torch.Tensor) -> Difference:
        ours = self._session.device.to_host(tensor)
        with outside_modes():
            return difference(ours, value)

    def _add(self, name: str, k: int, apart: Difference, value: torch.Tensor | None) -> None:
        """Bit for bit above what chance does to eager steps; against plain eager steps, which may have chosen another
        kernel, within rounding."""
        path = name.removeprefix("state ")
        with outside_modes():
            floor = None if path in self._noise.unbounded else 0.0 if value is None else self._noise.bound(path, value)
            rounding = None
            if self._plain and self._rounding is not None and value is not None:
                rounding = self._rounding.bound(path, value)
        self._checks.setdefault(name, Check(name)).add(k, apart, floor, rounding)

    def _check_data(self) -> list[dict[str, Any]]:
        """Every output; of the state, what differs, and one line for the rest."""
        reported = []
        same = 0
        for name, check in self._checks.items():
            if name.startswith("state ") and check.equal:
                same += 1
            else:
                reported.append(check.as_data())
        if same:
            reported.append(Check(f"state ({same} tensors)").as_data())
        return reported

    def _rng_law(self, pair: list[tuple[int | None, dict[str, str]]]) -> str | None:
        """Replays advance the generator as eager steps do, and two in a row differ exactly if two eager ones do."""
        steps = self._reference["steps"][PAIR - 1 :]
        eager = [step["advance"] for step in steps]
        ours = [advance for advance, _ in pair]
        self._law = {"eager": eager, "replay": ours}
        if None in eager or None in ours:
            return None
        if not any(eager) and not any(ours):
            return "skipped"
        if eager != ours:
            return "fail"
        with outside_modes():
            differ = any(
                not difference(value, steps[1]["outputs"][path]).equal
                for path, value in steps[0]["outputs"].items()
                if path in steps[1]["outputs"]
            )
        self._law |= {"eager_differ": differ, "replays_differ": pair[0][1] != pair[1][1]}
        return "pass" if differ == (pair[0][1] != pair[1][1]) else "fail"

    def _first_step(self, built: Mapping[str, torch.Tensor]) -> str:
        """Whether a replay from the state of construction gives what a first eager step gives. The last comparison."""
        session = self._session
        with users_code("step", "the state could not be put back"):
            for path, value in self._reference["start"].items():
                if path in built:
                    session.device.store(built[path], value)
            self._restart()
            session.put_inputs(1)
            session.seed(FIRST_SEED)
            self._replay()
        self._checks, self._plain = {}, True
        self._outputs(1, session.outputs_of(self._recording.outputs), self._reference["first_step"])
        differs = any(check.result == "different" for check in self._checks.values())
        return "fail" if differs else "pass"


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
