"""Which inputs of a step can be given new values, found by trying each on an eager build of its own."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from graphsafe.capture.session import PAIR, Session, host_values, outside_modes, save_values
from graphsafe.capture.state import Snapshot, inputs_of, reach_of
from graphsafe.capture.targets import TargetError, users_code
from graphsafe.capture.vary import varied

if TYPE_CHECKING:
    import torch

Values = Mapping[str, "torch.Tensor"]


class Broken(Exception):
    """New values for this input broke the process itself (a device-side assertion): it has to be done again without."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def try_inputs(session: Session, snapshot: Snapshot) -> list[dict[str, str]]:
    """Share the sets of new inputs as `inputs.pt`; return what could not be varied, as limits. Raises TargetError where
    the step fails on its own inputs, and Broken."""
    trial = _Trial(session, snapshot)
    if session.subject.refresh is not None:
        return []
    limits: list[dict[str, str]] = []
    good: list[str] = []
    for path in trial.original:
        reason = "an earlier attempt broke the process" if path in session.job.kept else trial.reason_to_keep(path)
        if reason is None:
            good.append(path)
        else:
            limits.append({"kind": "not-varied", "what": path, "why": reason})
    sets = []
    for k in range(1, PAIR + 1):
        new = {path: trial.new(path, k) for path in good}
        if len(good) > 1 and trial.outcome(new, "all inputs") is None:
            floats = {path: values for path, values in new.items() if values.is_floating_point()}
            new = floats if floats and trial.outcome(floats, "all inputs") is not None else {}
            limits.append(
                {"kind": "not-varied", "what": f"replay {k}", "why": "the step fails on all new inputs together"}
            )
        sets.append(new)
    snapshot.put_back()
    save_values(session.channel, "inputs.pt", {"sets": sets})
    return limits


class _Trial:
    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self._snapshot = snapshot
        self.original = host_values(session.device, inputs_of(session.subject))
        self._base, self._base_nan = self._run({}, "the step's own inputs")

    def new(self, path: str, k: int) -> torch.Tensor:
        import torch

        with outside_modes():
            generator = torch.Generator().manual_seed(zlib.crc32(f"{path}:{k}:{self._session.job.seed}".encode()))
            bounds = self._session.subject.bounds.get(path, (None, None))
            return varied(self.original[path], generator, bounds)

    def reason_to_keep(self, path: str) -> str | None:
        new = self.new(path, 1)
        with outside_modes():
            if new.equal(self.original[path]):
                return "its values leave no choice: all alike, or offsets or positions in order"
        outcome = self.outcome({path: new}, path)
        if outcome is None:
            return "the step fails, or turns to NaN, on new values"
        return "no output follows it" if outcome == self._base else None

    def outcome(self, new: Values, what: str) -> dict[str, str] | None:
        """Digests of outputs and state of two steps on these inputs; None where they raise or turn to NaN."""
        self._snapshot.put_back()
        try:
            digests, nan = self._run(new, what)
        except TargetError:
            try:
                self._session.device.synchronize()
                self._snapshot.put_back()
            except Exception as error:
                raise Broken(what) from error
            return None
        return None if nan and not self._base_nan else digests

    def _run(self, new: Values, what: str) -> tuple[dict[str, str], bool]:
        """Two steps, because the first may not show what an input does (an empty cache), nor the second (a plan made in
        the first)."""
        self._session.channel.phase(f"try {what}")
        digests: dict[str, str] = {}
        nan = False
        for number in (1, 2):
            found, is_nan = self._step(new)
            digests |= {f"{number} {path}": digest for path, digest in found.items()}
            nan = nan or is_nan
        return digests, nan

    def _step(self, new: Values) -> tuple[dict[str, str], bool]:
        session = self._session
        inputs = inputs_of(session.subject)
        for path, values in new.items():
            session.device.store(inputs[path], values)
        session.seed(0)
        outputs = session.outputs_of(session.step())
        with users_code("step", "the step failed"):
            digests = {path: session.device.digest(tensor) for path, tensor in outputs.tensors.items()}
            digests.update(outputs.hosts)
            for path, tensor in reach_of(session.subject).tensors.items():
                if path not in inputs:
                    digests[path] = session.device.digest(tensor)
            results = host_values(session.device, outputs.tensors).values()
        with outside_modes():
            nan = any(bool(value.isnan().any()) for value in results if value.is_floating_point())
        return digests, nan
