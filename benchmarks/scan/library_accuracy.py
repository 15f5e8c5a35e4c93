"""Measure how well scan distinguishes lines of libraries that wait for the device from lines that only run.

The truth comes from `library_truth.py`. It is scored as in transformers_accuracy.py. Wheels of the same versions are
unpacked, and each package is scanned alone without a configuration. A finding that is false for these steps may be
right for other steps. So library_ways/ takes other paths through the same lines, and the waits there (`library_truth.py
ways`) are counted separately.

    pip download --no-deps -d WHEELS torchvision==... torchaudio==...     # the versions that the truth names
    python benchmarks/scan/library_accuracy.py nine WHEELS/*.whl [--lines]  # the tables of docs/accuracy/waits.md
    python benchmarks/scan/library_accuracy.py untouched WHEELS/*.whl     # of the eleven
    python benchmarks/scan/library_accuracy.py third WHEELS/*.whl         # of libraries that nothing was tuned on
    python benchmarks/scan/library_accuracy.py fourth WHEELS/*.whl        # of 22 others
    python benchmarks/scan/library_accuracy.py fifth WHEELS/*.whl         # of 27 others
    python benchmarks/scan/library_accuracy.py sixth WHEELS/*.whl         # of 30 others
    python benchmarks/scan/library_accuracy.py seventh WHEELS/*.whl       # of 27 others
    python benchmarks/scan/library_accuracy.py eighth WHEELS/*.whl        # of 28 others
    python benchmarks/scan/library_accuracy.py ninth WHEELS/*.whl         # of 28 more
    python benchmarks/scan/library_accuracy.py tenth WHEELS/*.whl         # of 24 more
    python benchmarks/scan/library_accuracy.py eleventh WHEELS/*.whl      # of 38 small ones
    python benchmarks/scan/library_accuracy.py third WHEELS/*.whl --hot   # as if each function ran in every step

The further findings of --hot are in code that scan understands, but that it does not regard as part of a step.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from corpus import unpack
from transformers_accuracy import Place, Truth, found_in

DATA = Path(__file__).resolve().parents[1] / "data"
TRUTHS = {
    "nine": "library_truth.json",
    "untouched": "library_truth_untouched.json",
    "third": "library_truth_third.json",
    "fourth": "library_truth_fourth.json",
    "fifth": "library_truth_fifth.json",
    "sixth": "library_truth_sixth.json",
    "seventh": "library_truth_seventh.json",
    "eighth": "library_truth_eighth.json",
    "ninth": "library_truth_ninth.json",
    "tenth": "library_truth_tenth.json",
    "eleventh": "library_truth_eleventh.json",
}


def row(name: str, truth: Truth, found: Sequence[Place]) -> str:
    waits = [wait for wait in truth.waits if name in ("all", wait[0].partition("/")[0])]
    told = [wait for wait in truth.found(found) if wait in waits]
    reachable = [wait for wait in waits if wait not in truth.guarded]
    reached = [wait for wait in told if wait in reachable]
    false = [place for place in truth.beside(found) if place.code < "GS4"]
    return (
        f"| {name} | {len(told)} of {len(waits)} | {len(reached)} of {len(reachable)} | {len(false)} | {len(found)} |"
    )


def main() -> int:
    part = sys.argv[1]
    truth = Truth(json.loads((DATA / TRUTHS[part]).read_text(encoding="utf-8")))
    wheels = [Path(name) for name in sys.argv[1:] if name.endswith(".whl")]
    everything: list[Place] = []
    print(f"{truth.versions}\n\n| | lines that wait, found | that a capture reaches | false | findings in all |")
    print("|---|---|---|---|---|")
    for wheel in sorted(wheels):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            unpack(wheel, folder)
            package = next((path.name for path in folder.iterdir() if path.name in truth.versions), None)
            if package is None:
                # this package is only a dependency of a library
                continue
            found = found_in(folder, "--hot" in sys.argv)
        everything += found
        print(row(package, truth, found), flush=True)
    print(row("all", truth, everything))
    beside = truth.beside(everything)
    elsewhere: list[Place] = []
    if part == "nine":
        ways = Truth(json.loads((DATA / "library_ways.json").read_text(encoding="utf-8")))
        elsewhere = [place for place in beside if any(place.covers(*wait) for wait in ways.waits)]
        print(f"\nOf the false ones wait on another way through the same line: {len(elsewhere)}")
        print(f"Of the lines that wait on these ways, found: {len(ways.found(everything))} of {len(ways.waits)}")
    apart = Counter(place.code for place in beside if place.code >= "GS4")
    print(f"\nOn lines that ran, of what no wait can confirm: {dict(sorted(apart.items()))}")
    if "--lines" in sys.argv:
        told = truth.found(everything)
        for path, line in truth.waits:
            guarded = " (guarded)" if (path, line) in truth.guarded else ""
            print(f"{'found ' if (path, line) in told else 'missed'}{guarded} {path}:{line}")
        for place in beside:
            waits = " (waits on another way)" if place in elsewhere else ""
            print(f"beside{waits} {place.path}:{place.first}: {place.code} {place.message}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
