"""Finds the gradients that a program drops before each step, as `optimizer.zero_grad(set_to_none=True)` does.

PyTorch's documentation also drops gradients before the capture. The backward pass then allocates them in the graph's
pool. Each replay writes them there, although the refresh has removed them from their parameters. This is right only if
nothing but the step uses them. So a gradient counts as dropped only under these conditions: the refresh drops it
without using it, nothing else owns its memory, and the step changes the parameter. If the optimizer is not part of the
step, the gradients are results of the step, and code after a replay would not find them.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch.multiprocessing.reductions import StorageWeakRef

from graphsafe.capture.child.lines.carried import Given
from graphsafe.capture.child.session import DROPPED, Session, save_values
from graphsafe.capture.child.state import reachable_state
from graphsafe.capture.child.targets import TargetError


def save_dropped_gradients(session: Session) -> None:
    """Save the paths of the dropped gradients for the other children. Call this after a step, as the last work of a
    child. With ranks, no gradient counts as dropped, because all ranks would have to agree on each step."""
    if session.subject.refresh is None or session.ranks.size > 1:
        return
    try:
        dropped = _dropped(session, 1)
        dropped &= _dropped(session, 2) if dropped else set()
    except TargetError:
        return
    if dropped:
        save_values(session.channel, DROPPED, dropped)


def _dropped(session: Session, k: int) -> set[str]:
    """Call the refresh and run a step. Return the dropped gradients."""
    storages = _gradients(session)
    if not storages:
        return set()
    with Given() as given:
        session.put_inputs(k)
    gone = {path for path, one in storages.items() if one.expired() and one not in given.found}  # type: ignore[no-untyped-call]
    before = _parameters(session, gone - _gradients(session).keys())
    session.step()
    after = _parameters(session, before.keys() & _gradients(session).keys())
    return {path for path, digest in after.items() if digest != before[path]}


def _gradients(session: Session) -> dict[str, StorageWeakRef]:
    tensors = reachable_state(session.subject).tensors
    grads = {path: one for path, one in tensors.items() if path.endswith(".grad")}
    return {path: StorageWeakRef(one.untyped_storage()) for path, one in grads.items()}  # type: ignore[no-untyped-call]


def _parameters(session: Session, gradients: Iterable[str]) -> dict[str, str]:
    """Return the digest of each gradient's parameter."""
    tensors = reachable_state(session.subject).tensors
    found = {path: tensors.get(path.removesuffix(".grad")) for path in gradients}
    return dict(session.device.digests({path: one for path, one in found.items() if one is not None}))
