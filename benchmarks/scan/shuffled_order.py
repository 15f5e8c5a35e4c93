"""Check that a scan gives the same report for every order in which files and roots are read.

    python benchmarks/scan/shuffled_order.py FOLDER [--orders 3] [--seed 0]

Scans FOLDER once as a user does, then several times in random order. The files of the project, the files in which
reading begins, and the roots in each of these files are shuffled. Prints each finding or limit that differs, and exits
with 1 if there is any.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from graphsafe.config import Config, load_config
from graphsafe.report.json_form import as_json
from graphsafe.scan import api, driver


def scanned(folder: Path, config: Config) -> dict[str, object]:
    report: dict[str, object] = as_json(replace(api.scan_paths([folder], config), created=""))
    return report


def shuffled(folder: Path, config: Config, draw: random.Random) -> dict[str, object]:
    """Return the report of a scan that goes through files and roots in random order."""
    files, starts, roots, assumed = api.Files, api.find_candidates, driver.roots_of, driver.assumed_roots_of

    def mixed(items: Iterable[object]) -> list[object]:
        listed = list(items)
        draw.shuffle(listed)
        return listed

    def mixed_files(paths: Iterable[Path], *more: object) -> object:
        return files(mixed(paths), *more)  # type: ignore[arg-type]

    def mixed_starts(*arguments: object) -> object:
        found = starts(*arguments)  # type: ignore[arg-type]
        return replace(found, paths=tuple(mixed(found.paths)))  # type: ignore[arg-type]

    def mixed_roots(*arguments: object) -> Iterator[object]:
        return iter(mixed(roots(*arguments)))  # type: ignore[arg-type]

    def mixed_assumed(*arguments: object) -> Iterator[object]:
        return iter(mixed(assumed(*arguments)))  # type: ignore[arg-type]

    with (
        patch.object(api, "Files", mixed_files),
        patch.object(api, "find_candidates", mixed_starts),
        patch.object(driver, "roots_of", mixed_roots),
        patch.object(driver, "assumed_roots_of", mixed_assumed),
    ):
        return scanned(folder, config)


def differences(first: dict[str, object], second: dict[str, object]) -> list[str]:
    found: list[str] = []
    for key in ("findings", "limits"):
        one, other = ([repr(item) for item in report[key]] for report in (first, second))  # type: ignore[attr-defined]
        found += [f"- {item}" for item in one if item not in set(other)]
        found += [f"+ {item}" for item in other if item not in set(one)]
    if not found and first != second:
        found.append("the same findings in another order")
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    config = load_config(options.folder)
    draw = random.Random(options.seed)
    expected = scanned(options.folder, config)
    findings = expected["findings"]
    assert isinstance(findings, list)
    print(f"{len(findings)} findings in the usual order", flush=True)
    different = 0
    for number in range(options.orders):
        found = differences(expected, shuffled(options.folder, config, draw))
        different += bool(found)
        print(f"order {number + 1}: {len(found)} differences", flush=True)
        for line in found:
            print(line)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
