"""Changes what the host gives to a further step: numbers in files, random numbers, inputs on the host, and host memory
that the step writes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch

from graphsafe.capture.child.compare import difference
from graphsafe.capture.child.probes.further.step_ahead import StepAhead
from graphsafe.capture.child.state import inputs_of, tensors_in_arguments
from graphsafe.capture.child.vary import generator_for, proposals
from graphsafe.capture.device.modes import outside_modes
from graphsafe.report.probes.horizon import Under

_MOST_PROPOSALS = 8
_NOT_FINITE = frozenset(("nan", "inf", "-inf"))


def change_files(ahead: StepAhead) -> None:
    """Change numbers that the step reads from files. Leave out each file whose numbers do not change the step."""
    for path, variations in ahead.files.variations():
        is_steady = True
        for varied in variations:
            with varied():
                is_steady = ahead.one_more_step() and is_steady
            is_steady = is_steady and not ahead.departs()
            ahead.departure = None
        if is_steady:
            ahead.files.leave_out(path)


def draw_rarely(ahead: StepAhead) -> None:
    """Let the host draw its lowest and its highest numbers, because of tests such as `random.random() < 0.001`."""
    ahead.under = "rare random numbers on the host"
    for ahead.session.highest_draws in (False, True):
        if ahead.one_more_step() and ahead.departs():
            break
    ahead.session.highest_draws = None


def change_host_values(ahead: StepAhead) -> None:
    """Change inputs on the host, and host memory into which the step's device operations write."""
    _change(ahead, "other inputs on the host", _unvaried_host_inputs(ahead))
    if ahead.departure is None:
        _change(ahead, "other values in host memory", {str(at): one for at, one in enumerate(ahead.host_written)})


def _unvaried_host_inputs(ahead: StepAhead) -> dict[str, torch.Tensor]:
    """Return the inputs on the host. If there is a refresh, return only arguments that the refresh has not
    changed."""
    subject = ahead.session.subject
    # Objects of the user's own classes may hold settings of a request, so host tensors in them are changed too. If
    # there is a refresh, they are not changed, because the refresh may keep a counter in such an object.
    if subject.refresh is None:
        return ahead.session.on_host(tensors_in_arguments(subject, in_objects=True))
    given, on_host = ahead.host_inputs, ahead.session.on_host(inputs_of(subject))
    return {path: one for path, one in on_host.items() if path in given and difference(one, given[path]).equal}


def _change(ahead: StepAhead, under: Under, tensors: Mapping[str, torch.Tensor]) -> None:
    ahead.under = under
    for path, tensor in tensors.items():
        original = ahead.session.device.to_host(tensor)
        with outside_modes():
            generator = generator_for(path)
            proposed = list(itertools.islice(proposals(original, generator, far=True), _MOST_PROPOSALS))
        for new in proposed:
            ahead.given = {path: (tensor, new)}
            if not ahead.one_more_step() and not ahead.session.works():
                return
            if ahead.departure is not None and ahead.is_known_path():
                continue
            if ahead.departure is not None and ahead.departure.after in _NOT_FINITE:
                ahead.departure = None  # these values were illegal too, for example shares of a sum that is zero
            if ahead.departure is not None:
                return
        ahead.given = {}
        ahead.session.device.store(tensor, original)
