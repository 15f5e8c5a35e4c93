"""Whether a difference between replays and eager steps comes back in a second capture.

A few steps write one element several times, for example `index_copy_` with an index that appears twice. CUDA does not
say which value stays, and it is nearly always the same one, so eager steps may agree by luck. On an H200 with torch
2.11 that other processes used as well, four eager runs of such a step agreed and a replay differed.
"""

from __future__ import annotations

from dataclasses import replace

from graphsafe.report.probes import Probes
from graphsafe.report.probes.replay import Check, Replay, differing
from graphsafe.report.text import listed


def may_be_chance(probes: Probes) -> bool:
    """Return whether replays differ from eager steps, and twin captures do not say why."""
    return bool(_wrong(probes.replay)) and not probes.twin.explains


def confirmed(replay: Replay, second: Replay) -> Replay:
    """Return `replay` with only those differences that `second`, the replays of a second capture, has too. The other
    differences prove nothing, so their checks become undecided. If the second replays did not end, return `replay`."""
    again = {check.name for check in _wrong(second)}
    once = [check for check in _wrong(replay) if check.name not in again]
    if second.rng_law is None or not once:
        return replay
    checks = tuple(replace(check, result=None, floor=None) if check in once else check for check in replay.checks or ())
    if differing(checks) or replay.rng_law == "fail":
        return replace(replay, checks=checks)
    names = listed([check.name for check in once], most=3)
    why = f"replays of one capture differ from eager steps in {names}, and replays of another capture do not"
    return replace(replay, status="pass", reason=why, checks=checks)


def _wrong(replay: Replay) -> list[Check]:
    """Return the checks in which replays differ from the reference."""
    return [check for check in differing(replay.checks or ()) if check.compares != "plain eager"]
