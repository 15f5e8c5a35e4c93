"""Checks whether a second capture shows the same differences between replays and eager steps as the first.

A few steps write one element several times, for example `index_copy_` with an index that appears twice. CUDA does not
define which value remains. It is nearly always the same one, so eager steps may agree by chance. On an H200 with torch
2.11, while other processes used the GPU, four eager runs of such a step agreed and a replay differed.
"""

from __future__ import annotations

from dataclasses import replace

from graphsafe.report.probes import Probes
from graphsafe.report.probes.replay import Check, Replay, differing
from graphsafe.report.text import listed


def may_be_chance(probes: Probes) -> bool:
    """Return whether replays differ from eager steps, and twin captures do not explain the difference."""
    return bool(_wrong(probes.replay)) and not probes.twin.explains


def confirmed(replay: Replay, second: Replay) -> Replay:
    """Return `replay` without the differences that are missing from `second`, the replays of a second capture. Such
    differences prove nothing, so their checks become undecided. If the second replays did not finish, return `replay`
    unchanged."""
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
