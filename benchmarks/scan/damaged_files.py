"""Scan thousands of damaged files. Any findings are accepted, but graphsafe must neither fail nor hang.

    python benchmarks/scan/damaged_files.py FOLDER [--count 10000] [--seed 0] [--seconds 10]

Takes the `.py` files of FOLDER that contain a `forward`, damages one at a time in one to three ways, and scans it
alone. Prints each file that raised, that has an `internal-error` among its limits, or that took longer than `--seconds`
of CPU.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from graphsafe.config import Config
from graphsafe.rulebook.book import load_rulebook
from graphsafe.scan.api import scan_paths

MAX_BYTES = 40_000
TOKENS = (
    "x.item() self.cache[ ( ) : None lambda: yield await *args **kw torch.tensor([1]) if else for in not 0 -1 f'{x}'"
    " del global nonlocal := @ ... return raise super() x[mask] x[1:] = += with torch.cuda.graph(g): async match"
).split()


def delete_lines(lines: list[str], rng: random.Random) -> None:
    start = rng.randrange(len(lines))
    del lines[start : start + rng.randint(1, 4)]


def repeat_lines(lines: list[str], rng: random.Random) -> None:
    start = rng.randrange(len(lines))
    lines[start:start] = lines[start : start + rng.randint(1, 30)] * rng.randint(1, 3)


def move_lines(lines: list[str], rng: random.Random) -> None:
    start = rng.randrange(len(lines))
    moved = lines[start : start + rng.randint(1, 10)]
    del lines[start : start + len(moved)]
    at = rng.randint(0, len(lines))
    lines[at:at] = moved


def indent(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    lines[at] = "    " + lines[at] if rng.random() < 0.5 else lines[at][4:]


def change_token(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    words = lines[at].split(" ")
    words[rng.randrange(len(words))] = rng.choice(TOKENS)
    lines[at] = " ".join(words)


def swap_names(lines: list[str], rng: random.Random) -> None:
    names = [word for word in set(" ".join(lines).replace("(", " ").split()) if word.isidentifier()]
    if len(names) > 1:
        old, new = rng.sample(sorted(names), 2)
        lines[:] = "\n".join(lines).replace(f" {old}", f" {new}").split("\n")


def cut(lines: list[str], rng: random.Random) -> None:
    text = "\n".join(lines)
    lines[:] = text[: rng.randint(1, max(len(text), 1))].split("\n")


WAYS: tuple[Callable[[list[str], random.Random], None], ...] = (
    delete_lines,
    repeat_lines,
    move_lines,
    indent,
    change_token,
    cut,
    swap_names,
    swap_names,
    swap_names,
    swap_names,
)
"""Most often, names are exchanged. Other damage often makes a file that cannot be parsed, and such a file is not
followed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    sources = [
        text
        for path in sorted(options.folder.rglob("*.py"))
        if path.stat().st_size <= MAX_BYTES and "forward(" in (text := path.read_text("utf-8", "replace"))
    ]
    rng = random.Random(options.seed)
    rulebook = load_rulebook()
    seen: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.py"
        config = Config(root=Path(folder))
        for number in range(options.count):
            lines = rng.choice(sources).split("\n")
            for way in rng.choices(WAYS, k=rng.randint(1, 3)):
                if lines:
                    way(lines, rng)
            path.write_text("\n".join(lines), "utf-8")
            start = time.process_time()
            try:
                report = scan_paths([path], config, confidence="possible", rulebook=rulebook)
            except Exception:
                seen["raised"] += 1
                print(f"mutant {number} raised\n{traceback.format_exc()}")
                continue
            seconds = time.process_time() - start
            slowest = max(slowest, seconds)
            seen["unparsable"] += any(finding.code == "GS900" for finding in report.findings)
            if seconds > options.seconds:
                seen["slow"] += 1
                print(f"mutant {number} took {seconds:.1f} s of CPU")
            for limit in report.limits:
                seen[limit.kind] += 1
                if limit.kind == "internal-error":
                    print(f"mutant {number}: {limit.what}: {limit.why}")
    print(f"{options.count} mutants of {len(sources)} files: {dict(seen)}, the slowest {slowest:.2f} s of CPU")


if __name__ == "__main__":
    main()
