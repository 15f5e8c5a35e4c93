"""Finds the inputs of a step that can be given new values. New values are tried on a separate eager build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from graphsafe.capture.answers.build import Varied
from graphsafe.capture.child.session import INPUTS, PAIR, Session, host_values, save_values
from graphsafe.capture.child.state import Snapshot, inputs_of, numbers_of, opaque_inputs_of, reachable_state
from graphsafe.capture.child.state.values import SCALARS
from graphsafe.capture.child.targets import Subject, TargetError, kind_of, users_code
from graphsafe.capture.child.vary import generator_for, proposals
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.shared.job import OWN_INPUTS
from graphsafe.report.model import Limit

Values = Mapping[str, torch.Tensor]
Outcome = Mapping[str, str]

TOGETHER = "all inputs"

_MOST_ALONE = 32
"""Up to this many inputs are tried one by one. If there are more inputs, all are tried together. If the step then
fails, each half of them is tried, and so on."""

_NO_CHOICE = "no other legal values are known"
_BROKE = "the new values that were tried broke the process"
_FAILS = "the step fails, or returns NaN, on every new value that was tried"
_NO_OUTPUT = "no output depends on it"
_READ = "the step reads it on the host, but no output depends on the values that were tried"
_OPAQUE = "its contents cannot be changed; a graph keeps what Python reads from it (a `refresh` that changes it helps)"
_NO_TENSOR = "the step returns no tensor ({}); tuples, lists, dicts, sets and objects are searched"
_ALL_ZERO = "no output depends on it: every output is zero whatever the inputs are (a layer initialised with zeros?)"


@dataclass(eq=False)
class Broken(Exception):
    """Raised if new values for an input break the process, for example by a device-side assertion."""

    path: str


def try_inputs(session: Session, snapshot: Snapshot) -> tuple[list[Limit], Varied]:
    """Try new values for all inputs, and save the accepted values in `inputs.pt` for the other children. Return limits
    for the report. Raises Broken. Raises TargetError if the step fails on its own inputs."""
    trial, ranks, limits = _Trial(session, snapshot), session.ranks, list[Limit]()
    constants = numbers_of(session.subject)
    if constants:
        why = "Python numbers in the arguments are constants of a graph; give a bucket axis for each value that occurs"
        limits.append(Limit("constant", ", ".join(constants), why))
    if session.subject.refresh is not None:
        return limits, Varied((), ())
    opaque = ranks.union(opaque_inputs_of(session.subject))
    kept = [(path, _OPAQUE) for path in opaque]
    "Inputs that keep their values, with the reasons."
    kinds: dict[str, int] = {}
    "Input -> the number of the proposal that the step accepts."
    open_paths: list[str] = []
    for path in ranks.union(trial.original):
        broke = session.job.unvaried.count(path)
        if ranks.all(trial.proposed(path, 1, broke) is None):
            kept.append((path, _BROKE if broke else _NO_CHOICE))
        else:
            open_paths.append(path)
    if len(open_paths) <= _MOST_ALONE:
        for path in open_paths:
            kind, why = trial.alone(path)
            if kind is None:
                kept.append((path, why))
            else:
                kinds[path] = kind
    else:
        kinds = dict.fromkeys(trial.together(open_paths), 0)
        kept += [(path, _FAILS) for path in open_paths if path not in kinds]
    limits += [Limit("not-varied", path, why) for path, why in kept]
    unvaried = [path for path, why in kept if why not in (_NO_OUTPUT, _ALL_ZERO)]
    sets = []
    for k in range(1, PAIR + 1):
        new = trial.new(kinds, k)
        if ranks.any(len(new) > 1) and (TOGETHER in session.job.unvaried or not trial.runs(new, TOGETHER)):
            new = {} if TOGETHER in session.job.unvaried else trial.largest_that_runs(new)
            left = sorted(kinds.keys() - new.keys())
            why = "the step fails if all inputs are new at once"
            limits.append(Limit("not-varied", f"replay {k}: {', '.join(left[:8])}", why))
            unvaried += [path for path in left if k == 1 or path in unvaried]
        sets.append(new)
    never = tuple(path for path in dict.fromkeys(unvaried) if not any(path in new for new in sets))
    snapshot.put_back()
    save_values(session.channel, INPUTS, tuple(sets))
    return limits, Varied(never, tuple(path for path in never if path in trial.on_host or path in opaque))


class _Trial:
    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self._snapshot = snapshot
        inputs = inputs_of(session.subject)
        self.original = host_values(session.device, inputs)
        on_host = session.on_host(inputs)
        self.on_host = {*on_host}
        self._all_zero = True
        self._opaque: str | None = None
        "The type of the object that the step returns, if no tensor is found in it."
        reads = _HostReads(session.subject, on_host)
        self._base, self._base_nan = self._run({}, OWN_INPUTS, reads)
        self._read = reads.paths

    def proposed(self, path: str, k: int, kind: int) -> torch.Tensor | None:
        """Return proposal number `kind` for replay `k`. Return None if there is no such proposal, or if the input
        belongs to another rank."""
        if path not in self.original:
            return None
        with outside_modes():
            generator = generator_for(f"{path}:{k}:{self._session.job.seed}")
            bounds = self._session.subject.bounds.get(path, (None, None))
            proposed = proposals(self.original[path], generator, bounds, path in self.on_host)
            return next(islice(proposed, kind, None), None)

    def new(self, kinds: Mapping[str, int], k: int) -> dict[str, torch.Tensor]:
        drawn = {path: self.proposed(path, k, kind) for path, kind in kinds.items()}
        return {path: values for path, values in drawn.items() if values is not None}

    def alone(self, path: str) -> tuple[int | None, str]:
        """Try the proposals in order. If the step accepts a proposal that changes an output, return the proposal's
        number and an empty string. If there is no such proposal, return None and the reason."""
        why = _FAILS
        kind = self._session.job.unvaried.count(path)
        ranks = self._session.ranks
        while ranks.any((new := self.proposed(path, 1, kind)) is not None):
            outcome = self.outcome({} if new is None else {path: new}, path)
            runs = ranks.all(outcome is not None)
            if runs and ranks.any(outcome != self._base):
                return kind, ""
            if runs:
                why = _ALL_ZERO if self._all_zero else _NO_OUTPUT
                why = why if self._opaque is None else _NO_TENSOR.format(self._opaque)
            kind += 1
        is_read = ranks.any(path in self._read)
        return None, _READ if why == _NO_OUTPUT and is_read else why

    def runs(self, new: Values, what: str) -> bool:
        """Return whether the step accepts these values in every rank."""
        return self._session.ranks.all(self.outcome(new, what) is not None)

    def together(self, paths: Sequence[str]) -> list[str]:
        """Return the inputs whose new values the step accepts, found by halving the list."""
        if self.runs(self.new(dict.fromkeys(paths, 0), 1), TOGETHER if len(paths) > 1 else paths[0]):
            return list(paths)
        if len(paths) == 1:
            return []
        middle = len(paths) // 2
        return [*self.together(paths[:middle]), *self.together(paths[middle:])]

    def largest_that_runs(self, new: Values) -> dict[str, torch.Tensor]:
        """Add one input after another, floats first, as long as the step accepts all of them together."""
        taken: dict[str, torch.Tensor] = {}
        floats_first = sorted(new, key=lambda path: not new[path].is_floating_point())
        for path in self._session.ranks.union(floats_first)[:_MOST_ALONE]:
            more = {path: new[path]} if path in new else {}
            if self.runs({**taken, **more}, TOGETHER):
                taken |= more
        return taken

    def outcome(self, new: Values, what: str) -> Outcome | None:
        """Return digests of outputs and state after two steps on these inputs. Return None if a step raises, or if its
        results turn to NaN."""
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

    def _run(self, new: Values, what: str, reads: _HostReads | None = None) -> tuple[Outcome, bool]:
        """Run two steps. One step is not enough, because an input may have no effect in a single step: a cache is
        empty, or a plan was made earlier."""
        self._session.channel.phase(f"try {what}")
        digests: dict[str, str] = {}
        nan = False
        for number in (1, 2):
            found, is_nan = self._step(new, reads)
            digests |= {f"{number} {path}": digest for path, digest in found.items()}
            nan = nan or is_nan
        return digests, nan

    def _step(self, new: Values, reads: _HostReads | None) -> tuple[Outcome, bool]:
        session = self._session
        inputs = inputs_of(session.subject)
        for path, values in new.items():
            session.device.store(inputs[path], values)
        session.seed(0)
        given, versions = session.device.digests(inputs), _versions(inputs)
        with reads or nullcontext():
            returned = session.step()
        outputs = session.outputs_of(returned)
        is_plain = issubclass(type(returned), (*SCALARS, dict, list, tuple))
        self._opaque = None if is_plain or outputs.tensors else kind_of(returned)
        with users_code("step", "the step failed"):
            state = session.device.digests(reachable_state(session.subject).tensors)
            # An input is a result of the step only if the step writes to it. The step may write the same values again,
            # so writes are counted.
            written = {path for path, version in _versions(inputs).items() if versions[path] != version}
            changed = {path: digest for path, digest in state.items() if given.get(path) != digest or path in written}
            digests = {**session.device.digests(outputs.tensors), **outputs.hosts, **changed}
            results = list(host_values(session.device, outputs.tensors).values())
        with outside_modes():
            nan = any(bool(value.isnan().any()) for value in results if value.is_floating_point())
            is_zero = bool(results) and not any(bool((value != 0).any()) for value in results)
            self._all_zero = self._all_zero and is_zero
        return digests, nan


def _versions(inputs: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Return the number of writes to each input. An inference tensor does not count its writes."""
    return {path: 0 if one.is_inference() else one._version for path, one in inputs.items()}


_PROPERTIES = "device dtype is_cpu is_cuda is_leaf is_sparse itemsize layout nbytes ndim requires_grad shape"
_METHODS = (
    "__hash__ __len__ dim element_size get_device is_complex is_contiguous is_floating_point is_pinned is_shared "
    "nelement numel size storage_offset stride"
)
_WITHOUT_VALUES = (
    *(getattr(torch.Tensor, name).__get__ for name in _PROPERTIES.split()),
    *(getattr(torch.Tensor, name) for name in _METHODS.split()),
)
"Functions that read no values of a tensor."


class _HostReads(TorchFunctionMode):
    """A mode in which steps run. `paths` are then the inputs on the host that the steps read. Python or an operation
    may depend on their values."""

    def __init__(self, subject: Subject, on_host: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        again = inputs_of(subject)
        self._tensors = {id(one): path for path, one in on_host.items() if again.get(path) is one}
        # Reads of an array or a buffer cannot be seen. Its tensor was made for graphsafe only.
        self.paths = {path for path in on_host if path not in self._tensors.values()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _WITHOUT_VALUES:
            given = (self._tensors.get(id(one)) for one in tree_leaves((args, kwargs)))
            self.paths.update(path for path in given if path is not None)
        return func(*args, **(kwargs or {}))
