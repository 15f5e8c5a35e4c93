"""Compare the verdicts of `graphsafe capture` on the unusual steps of benchmarks/capture/ready with their labels.

    python benchmarks/capture/unusual_steps.py fourteenth fifteenth --device cuda:0 --jobs 10 --out FOLDER
    python benchmarks/capture/unusual_steps.py ninth --device sim --jobs 2 --only lanes,stale_mask --out FOLDER

The report of each step is written to FOLDER/SET.NAME.json as soon as the step is done. `--budget` is the time in
seconds for all steps; steps without a verdict within this time are counted separately. The labels come from the authors
of the steps. On a GPU, ready/oracle.py checks the labels without graphsafe.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.agreement import run, share

READY = Path(__file__).with_name("ready")


@dataclass(frozen=True, slots=True)
class Step:
    """A target of a set, and whether its label calls it sound."""

    group: str
    target: str
    sound: bool
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        file, _, factory = self.target.partition(":")
        stem = file.removesuffix(".py")
        return f"{self.group}.{stem}" if factory == "build" else f"{self.group}.{stem}.{factory}"


def steps(groups: Sequence[str], only: Sequence[str]) -> list[Step]:
    found = []
    for group in groups:
        labels = json.loads((READY / group / "labels.json").read_text(encoding="utf-8"))
        for target, label in labels.items():
            step = Step(group, target, label["sound"], tuple(label.get("options", "").split()))
            if not only or any(word in step.name for word in only):
                found.append(step)
    return found


def verdict(step: Step, device: str, folder: Path, ends: float) -> str | None:
    """Return the verdict of a step, or None if the time ends before there is a verdict."""
    left = ends - time.monotonic()
    report = folder / f"{step.name}.json"
    report.unlink(missing_ok=True)
    if left > 5:
        command = [sys.executable, "-m", "graphsafe", "capture", str(READY / step.group / step.target), *step.options]
        code, said = run([*command, "--device", device, "-q", "-o", str(report)], str(folder), left)
        if code is not None and report.exists():
            return str(json.loads(report.read_text(encoding="utf-8"))["verdict"])
        print(f"{step.name}: {said[-300:]}", flush=True)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", metavar="SET", help="a folder of benchmarks/capture/ready")
    parser.add_argument("--device", default="sim")
    parser.add_argument("--jobs", type=int, default=2, help="steps at a time")
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--budget", type=float, default=560.0, help="seconds for all steps")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    asked = steps(options.groups, [word for word in options.only.split(",") if word])
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda s: verdict(s, options.device, options.out, begun + options.budget), asked))
    for group in options.groups:
        told = [(step, answer) for step, answer in zip(asked, found, strict=True) if step.group == group]
        faulty = [(step, answer) for step, answer in told if not step.sound and answer]
        sound = [(step, answer) for step, answer in told if step.sound and answer]
        print(f"\n{group}: {len(told)} steps, {sum(answer is None for _, answer in told)} without a verdict")
        for what, pairs, wrong in (
            ("falsely ready", faulty, "ready"),
            ("refused", sound, "not-ready"),
            ("sound but inconclusive", sound, "inconclusive"),
        ):
            names = [step.name for step, answer in pairs if answer == wrong]
            print(f"  {what}: {share(len(names), len(pairs))} {' '.join(names)}")
    print(f"\n{len(asked)} steps in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
