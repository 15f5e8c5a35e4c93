"""The plain attempt: warm up on the capture stream, capture, replay on new inputs, and compare with the reference.

Nothing is instrumented here, because instruments change the program. This child decides the verdict; the other children
explain it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from graphsafe.capture.answers.events import CaptureFailure, Diagnosis, StepEvent
from graphsafe.capture.answers.probes import EscapedWork
from graphsafe.capture.child.compare import EQUAL, INCOMPARABLE, Difference, difference, incomparable_check, worse_check
from graphsafe.capture.child.expected import EXPECTED, GIVEN, ConstructedState, Expected, StepResult
from graphsafe.capture.child.probes.twin import compare_captures
from graphsafe.capture.child.same_inputs import SameInputs
from graphsafe.capture.child.session import CAPTURE_SEED, FIRST_SEED, PAIR, REPLAYS, Session, load_values, opened
from graphsafe.capture.child.state import ReachableState, reachable_state, tensors_of_refresh
from graphsafe.capture.child.targets import TargetError, describe, users_code
from graphsafe.capture.device.protocol import NotComparable, Recording, Replayable
from graphsafe.capture.shared.job import CAPTURE, REFERENCE, Channel, Job, ended_marker
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.order import Order
from graphsafe.report.probes.probe import Error
from graphsafe.report.probes.replay import NO_REFERENCE, Advances, Check, Replay
from graphsafe.report.probes.twin import Twin


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        built = reachable_state(session.subject).tensors
        channel.phase("wait for the reference to be built")
        unmatched = copy_reference_state(session, built)
        session.warm_up_on_capture_stream()
        channel.send(Capture("skipped", "the attempt did not finish", phase="capture"))
        constants = reachable_state(session.subject).constants()
        session.seed(CAPTURE_SEED)
        gc.collect()
        channel.phase(CAPTURE)
        answer = session.record()
        channel.send(captured(session, answer))
        if isinstance(answer, CaptureFailure):
            if answer.event is not None:
                channel.send(Diagnosis("operation", answer.event))
        else:
            beside = [StepEvent("hidden-sync", one.op, one.frames, one.span) for one in session.ranks.issued.beside]
            channel.send(EscapedWork((*answer.escaped(), *beside)))
        others = session.ranks.gather(isinstance(answer, CaptureFailure))
        if isinstance(answer, CaptureFailure):
            return
        if any(others):
            channel.send(Replay(reason=f"rank {others.index(True)} could not capture the step", checks=()))
            return
        if session.ranks.any(not answer.nodes()):
            channel.send(Replay(reason="there is nothing in the graph", checks=()))
            return
        channel.send(Twin("crashed", "it was not reached"))
        repeats = _replay(session, answer, unmatched, built)
        channel.send(Twin("crashed", "the process died while capturing the step again"))
        channel.send(compare_captures(session, answer, constants, repeats))
        channel.send(Order("crashed", "the process died while the order of nodes was checked"))
        channel.send(_order(session, answer))


def _order(session: Session, recording: Recording) -> Order:
    session.channel.phase("look for races")
    try:
        races = session.device.races(recording, session.subject)
    except NotComparable as error:
        return Order(reason=str(error))
    return Order("fail" if races else "pass", races=races)


def _replay(session: Session, recording: Recording, unmatched: list[str], built: Mapping[str, torch.Tensor]) -> bool:
    """Compare replays with the reference. Return whether the reference's eager steps repeat bit for bit."""
    session.channel.phase("wait for the reference")
    reference = reference_of(session)
    if session.ranks.any(reference is None or bool(unmatched)) or reference is None:
        why = "two builds of the target differ in " + ", ".join(unmatched[:3]) if unmatched else NO_REFERENCE
        session.channel.send(Replay(reason=why, checks=()))
        return True
    session.channel.send(Replay(reason="the replays did not finish", reference="independent"))
    Replays(session, recording, reference, on_result=session.channel.send).run(built)
    return reference.repeats


def copy_reference_state(session: Session, built: Mapping[str, torch.Tensor]) -> list[str]:
    """Set the tensors of the step and of the refresh to the values that they had in the reference after construction.
    Return the names of tensors for which these values are missing."""
    if not wait_for_file(session, GIVEN):
        return []
    given: ConstructedState = load_values(session.channel.folder / GIVEN)
    # The data of a refresh may differ between builds too, but the step does not read such data.
    found = {**tensors_of_refresh(session.subject), **built}
    digests = session.device.digests(found)
    differing = [name for name in found if digests[name] != given.digests.get(name)]
    for name in differing:
        if name in given.values:
            session.device.store(found[name], given.values[name])
    return [name for name in differing if name in built and name not in given.values]


def wait_for_file(session: Session, name: str, child: str = REFERENCE) -> bool:
    """Wait for a file of another child. Return False if that child has ended without writing the file."""
    file, end = session.channel.folder / name, session.channel.folder / ended_marker(child)
    while not file.exists() and not end.exists():
        time.sleep(0.02)
    return file.exists()


def reference_of(session: Session) -> Expected | None:
    return load_values(session.channel.folder / EXPECTED) if wait_for_file(session, EXPECTED) else None


def given_reference(session: Session) -> tuple[Mapping[str, torch.Tensor], Expected] | None:
    """Set the tensors that exist after construction to the reference's values. Return these tensors and the reference,
    or None if there is no usable reference. Children that replay something other than the plain capture call this
    function."""
    built = reachable_state(session.subject).tensors
    unmatched = copy_reference_state(session, built)
    reference = reference_of(session)
    return None if reference is None or unmatched else (built, reference)


def replayed(session: Session) -> Replays | None:
    """Capture the step and replay it as the capture child does, but without the comparison of the first step. Return
    None if there is no usable reference or recording. Afterwards graphsafe keeps none of the tensors from construction
    alive, so the target may free them."""
    given = given_reference(session)
    if given is None:
        return None
    built, reference = given
    session.warm_up_on_capture_stream()
    recording = session.record()
    if isinstance(recording, CaptureFailure):
        return None
    replays = Replays(session, recording, reference)
    replays.run(built, first_step=False)
    return replays


def captured(session: Session, answer: Recording | CaptureFailure) -> Capture:
    unknown = tuple(session.device.unknown_operations())
    if isinstance(answer, CaptureFailure):
        return Capture("fail", phase="capture", nodes={}, first_error=answer, unknown_operations=unknown)
    nodes = dict(answer.nodes())
    return Capture(
        "pass",
        phase="capture",
        nodes=nodes,
        empty=not nodes,
        misses_work=True if answer.escaped() or session.ranks.issued.beside else None,
        unknown_operations=unknown,
        pool_bytes=answer.pool_bytes(),
    )


Law = Literal["pass", "fail", "skipped"] | None


@dataclass
class Replays:
    """Replays of a recording on new inputs, each compared with the same step of the reference."""

    session: Session
    recording: Replayable
    reference: Expected
    restart: Callable[[], None] = lambda: None
    """Puts back the state that construction left, except for memory. A plain graph reads only memory, so its replays
    need no such function."""
    on_result: Callable[[Replay], None] = lambda replay: None
    "A function that is called with the probe `replay` at each new result."
    result: Replay = field(default_factory=Replay)
    "The probe `replay`, once replays have run."
    error: Exception | None = None
    is_exact: bool = True
    "Whether all results of the last replay of `once` equal the reference's bit for bit."
    _checks: dict[str, Check] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plain = bool(self.reference.refused)
        "Whether the reference consists of plain eager steps. If so, rounding differences are allowed."
        self.same = SameInputs(self.session, self.reference.refreshed)
        gradients, dropped = self.session.gradients, self.reference.dropped
        self._gradients = {path: one for path, one in gradients.items() if path in dropped}
        "Gradients that the refresh drops. They are therefore compared in the memory that replays write."

    def compared_with(self, steps: Sequence[StepResult]) -> Replays:
        """Return further replays of this recording, to be compared with other steps of the reference."""
        found = Replays(self.session, self.recording, replace(self.reference, steps=steps))
        found.same = self.same
        return found

    def against(self, what: str) -> str | None:
        """Return the reason why replays do not match the eager steps, or None. `what` names the replays."""
        if self.error is not None:
            return f"a replay of {what} failed: {describe(self.error)}"
        if not self.result.checks:
            return "nothing could be compared with the reference"
        if self.different:
            return f"replays of {what} differ from the reference in {', '.join(self.different[:3])}"
        if self.result.rng_law not in ("pass", "skipped"):
            return f"replays of {what} do not draw the random numbers that eager steps draw"
        return None

    @property
    def different(self) -> list[str]:
        """The outputs and the state that differ or cannot be compared."""
        return [check.name for check in self.result.checks or () if check.result in ("different", None)]

    @property
    def doubt(self) -> str | None:
        """The reason why differences in some results prove nothing; None if there is no such reason."""
        return self.same.doubt if any(check.result is None for check in self._checks.values()) else None

    def run(self, built: Mapping[str, torch.Tensor], first_step: bool = True) -> None:
        """Run all replays. `built` has the tensors that construction left. If `first_step` is set, the first step of a
        lazy target is compared too."""
        session = self.session
        try:
            for k in range(1, REPLAYS + 1):
                session.channel.phase(f"replay {k}")
                self._put_inputs(k, k)
                self._replay()
                self._compare(k)
            session.channel.phase("two replays without seeding")
            self._put_inputs(PAIR, PAIR)
            pair = []
            for k in (PAIR, PAIR + 1):
                advance = self._replay()
                outputs = session.outputs_of(self.recording.outputs).tensors
                pair.append((advance, session.device.digests(outputs)))
                self._compare(k)
            law, advances = self._rng_law(pair)
        except TargetError:
            raise
        except Exception as error:
            self.error = error
            self.result = Replay(
                "fail", reference="independent", checks=self._reported(), first_error=Error(describe(error))
            )
            self.on_result(self.result)
            return
        lazy = self.reference.first_step if first_step else None
        self.result = Replay(
            "fail" if self._differs() or law == "fail" else "pass",
            self.doubt,
            reference="independent",
            checks=self._reported(),
            rng_law=law,
            rng=advances,
            first_step="skipped" if lazy is None else "crashed",
        )
        self.on_result(self.result)
        if lazy is not None:
            session.channel.phase("a first step put back")
            self.result = replace(self.result, first_step=self._first_step(built, lazy))
            self.on_result(self.result)

    def once(self, k: int, inputs: int, then: Callable[[], None] = lambda: None) -> tuple[Check, ...]:
        """Replay on the inputs numbered `inputs`, and compare with step `k` of the reference. `then` is called after
        the inputs are set and before the replay."""
        self.is_exact = True
        self._put_inputs(k, inputs)
        then()
        self._replay()
        self._compare(k)
        return self._reported()

    def _put_inputs(self, k: int, inputs: int) -> None:
        self.session.put_inputs(inputs)
        self.same.give(inputs, self.reference.steps[k - 1].refreshed)

    def compared(self, k: int, outputs: Mapping[str, torch.Tensor]) -> tuple[Check, ...]:
        """Compare host copies of a replay's outputs with step `k` of the reference."""
        for path, value in self.reference.steps[k - 1].outputs.items():
            self._add(path, k, difference(outputs.get(path), value), value)
        return self._reported()

    def _replay(self) -> int | None:
        """Replay once, after other allocations and with poisoned outputs. Return how far the generator advanced."""
        session, device = self.session, self.session.device
        device.churn()
        kept = set(reachable_state(session.subject).places().values())
        outputs = session.outputs_of(self.recording.outputs)
        for tensor in (*outputs.tensors.values(), *self._gradients.values()):
            if tensor.untyped_storage().data_ptr() not in kept and device.is_on_device(tensor):
                device.poison(tensor)
        before = session.offset()
        self.recording.replay()
        device.synchronize()
        after = session.offset()
        return None if before is None or after is None else after - before

    def _compare(self, k: int) -> None:
        session, expected = self.session, self.reference.steps[k - 1]
        outputs = session.outputs_of(self.recording.outputs)
        self._outputs(k, outputs, expected)
        for name in (f"the tensors that the step puts into {path}" for path in expected.filled):
            self._checks[name] = incomparable_check(name)
        tensors = {**self._gradients, **reachable_state(session.subject).tensors}
        digests = session.device.digests({path: tensors[path] for path in expected.state if path in tensors})
        for path, digest in expected.state.items():
            if path in self.reference.host_counts:
                continue
            if digests.get(path) == digest:
                self._checks.setdefault(f"state {path}", Check(f"state {path}"))
            elif path in expected.hashed and self._may_round(tensors.get(path)):
                self.is_exact = False  # its values were not saved, so rounding may be the cause
            else:
                value = expected.values.get(path)
                self._add(f"state {path}", k, self._apart(tensors.get(path), value), value)

    def _outputs(self, k: int, outputs: ReachableState, expected: StepResult) -> None:
        for path, value in expected.outputs.items():
            self._add(path, k, self._apart(outputs.tensors.get(path), value), value)
        for path in outputs.unreadable:
            self._checks[path] = incomparable_check(path)
        for path, text in expected.hosts.items():
            self._checks.setdefault(path, Check(path, on_host=True))
            self._add(path, k, EQUAL if outputs.hosts.get(path) == text else INCOMPARABLE, None)

    def _apart(self, tensor: torch.Tensor | None, value: torch.Tensor | None) -> Difference:
        return difference(None if tensor is None else self.session.device.to_host(tensor), value)

    def _may_round(self, tensor: torch.Tensor | None) -> bool:
        """Return whether floats of the reference are known to differ by chance or by rounding."""
        rounds = self._plain or bool(self.reference.noise.units or self.reference.noise.unbounded)
        return rounds and tensor is not None and (tensor.is_floating_point() or tensor.is_complex())

    def _add(self, name: str, k: int, apart: Difference, value: torch.Tensor | None) -> None:
        """Add a comparison. A difference is a fault if chance does not explain it. If the reference consists of plain
        eager steps, which may use other kernels, rounding may explain the difference too."""
        self.is_exact = self.is_exact and apart.equal
        path, spread = name.removeprefix("state "), self.reference.rounding
        floor = self.reference.noise.bound(path, value, apart)
        rounding = None
        if self._plain and spread is not None and value is not None:
            rounding = spread.bound(path, value, apart)
        if self.same.doubt is not None:
            floor = rounding = None
        self._checks[name] = worse_check(self._checks.get(name, Check(name)), k, apart, floor, rounding)

    def _reported(self) -> tuple[Check, ...]:
        """Return a check for each output, a check for each tensor of state that differs, and one check for all other
        state."""
        same = {name for name, check in self._checks.items() if name.startswith("state ") and check.equal}
        reported = tuple(check for name, check in self._checks.items() if name not in same)
        return (*reported, Check(f"state ({len(same)} tensors)")) if same else reported

    def _rng_law(self, pair: list[tuple[int | None, dict[str, str]]]) -> tuple[Law, Advances]:
        """Check that replays advance the generator as far as eager steps do, and that two successive replays differ if
        two successive eager steps do."""
        steps = self.reference.steps[PAIR - 1 :]
        eager = [step.advance for step in steps]
        ours = [advance for advance, _ in pair]
        advances = Advances(tuple(eager), tuple(ours))
        if None in eager or None in ours:
            return None, advances
        if not any(eager) and not any(ours):
            return "skipped", advances
        if eager != ours:
            return "fail", advances
        differ = any(
            not difference(value, steps[1].outputs[path]).equal
            for path, value in steps[0].outputs.items()
            if path in steps[1].outputs
        )
        advances = replace(advances, eager_differ=differ, replays_differ=pair[0][1] != pair[1][1])
        return "pass" if advances.eager_differ == advances.replays_differ else "fail", advances

    def _first_step(self, built: Mapping[str, torch.Tensor], expected: StepResult) -> Literal["pass", "fail"]:
        """Compare the first eager step with a replay that starts from the state after construction. This must be the
        last comparison."""
        session = self.session
        with users_code("step", "the state could not be restored"):
            for path, value in self.reference.start.items():
                if path in built:
                    session.device.store(built[path], value)
            self.restart()
            session.put_inputs(1)
            session.seed(FIRST_SEED)
            self._replay()
        self._checks, self._plain = {}, True
        self._outputs(1, session.outputs_of(self.recording.outputs), expected)
        return "fail" if self._differs() else "pass"

    def _differs(self) -> bool:
        return any(check.result == "different" for check in self._checks.values())
