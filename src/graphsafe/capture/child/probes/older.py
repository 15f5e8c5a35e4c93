"""Runs further eager steps before a last capture. The last capture is then compared with an early capture; see
`twin.py`.

A limit that depends on a count of steps may have no effect in the first captures, but change the results a hundred
steps later. If the target has a refresh, its rounds compare the values of that many steps, and nothing runs here.
"""

from __future__ import annotations

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import copies_of, reachable_state
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.child.time_left import TimeLeft

_STEPS = 256
_CPU_SECONDS, _SECONDS = 1.0, 3.0
_SEED = 90_000


def run_steps(session: Session) -> bool:
    """Run further steps, and return whether they ran and succeeded. State on the device is put back after each step, so
    that positions do not run out of their buffers."""
    if session.subject.refresh is not None or session.ranks.size > 1:
        return False
    session.channel.phase("further steps before a last capture")
    device = session.device
    alive = {path: one for path, one in reachable_state(session.subject).tensors.items() if device.is_on_device(one)}
    time_left, before = TimeLeft(_CPU_SECONDS, _SECONDS), device.digests(alive)
    try:
        with device.capture_stream():
            session.seed(_SEED)
            session.step()
            after = device.digests(alive)
            put_back = copies_of(device, {path: alive[path] for path in alive if before[path] != after[path]})
            for number in range(1, _STEPS):
                if time_left.is_over(number):
                    break
                session.seed(_SEED + number)
                session.step()
                for path, values in put_back.items():
                    device.store(alive[path], values)
    except TargetError:
        return False
    return True
