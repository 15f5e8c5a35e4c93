"""Tells whether a predicted finding and a finding that was seen have the same cause."""

from __future__ import annotations

from graphsafe.report.model import Finding


def same_cause(prediction: Finding, seen: Finding) -> bool:
    """Return whether a prediction and a finding that was seen have the same cause.

    They do if they have the same code on the same line, or two codes about host reads, extents and copies on that line.
    Streams and state do not belong to a single line: findings about them need only the same code in the same function.
    """
    here, there = prediction.location, seen.location
    if prediction.code == seen.code and prediction.code.startswith(("GS6", "GS7")):
        return (here.path, here.function) == (there.path, there.function)
    if here.path != there.path or not here.line <= there.line <= max(here.line, here.end_line):
        return False
    if prediction.code == seen.code:
        return True
    return all(code[:3] in ("GS1", "GS2", "GS3") for code in (prediction.code, seen.code))
