"""Count the judged findings that scan still reports.

    python benchmarks/scan/judged_findings.py CHECKOUTS [--gone]

data/judged_findings.json contains findings in published repositories. They were drawn at random, before anybody who
works on graphsafe had looked at them. Readers who had not seen scan's code judged them as `true`, `region` (true, but
not in a step), `unclear` or `false`. `holds_if_used` marks a finding that is false only because the repository does not
use the code: no script turns its option on, or nothing uses its class. CHECKOUTS contains OWNER-NAME for each
repository, at the commit that the data names. `--gone` lists the findings that are no longer reported above note.
`draw` is the number of the draw with a finding. Each draw was made after the repairs for earlier draws.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpus import findings_above_note

DATA = Path(__file__).resolve().parents[1] / "data" / "judged_findings.json"
VERDICTS = ("true", "region", "unclear", "false")


def reported(checkout: Path) -> set[tuple[str, int, str]]:
    """Return the path, line and code of each finding above note in a checkout."""
    top = checkout.resolve()
    return {
        (Path(one.location.path).resolve().relative_to(top).as_posix(), one.location.line, one.code)
        for one in findings_above_note(top)
    }


def row(name: str, judged: Sequence[Mapping[str, Any]]) -> str:
    counts = [sum(one["verdict"] == verdict for one in judged) for verdict in VERDICTS]
    holds = sum(one["holds_if_used"] for one in judged)
    shares = [f"{count} ({count / len(judged):.2f})" if judged else "0" for count in (counts[0], holds)]
    return f"| {name} | {len(judged)} | {shares[0]} | {shares[1]} | {' | '.join(map(str, counts[1:]))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--gone", action="store_true", help="list the findings that are no longer reported")
    options = parser.parse_args()
    by_repo = defaultdict(list)
    for one in json.loads(DATA.read_text(encoding="utf-8")):
        by_repo[one["repo"].replace("/", "-")].append(one)
    drawn: list[Mapping[str, Any]] = []
    still: list[Mapping[str, Any]] = []
    for name, judged in sorted(by_repo.items()):
        if not (options.checkouts / name).is_dir():
            print(f"{name}: no checkout")
            continue
        found = reported(options.checkouts / name)
        drawn += judged
        still += [one for one in judged if (one["path"], one["line"], one["code"]) in found]
    print("| | findings | true | true or holds if used | wrong region | unclear | false |")
    print("|---|---|---|---|---|---|---|")
    for draw in sorted({one["draw"] for one in drawn}):
        print(row(f"draw {draw}, at first sight", [one for one in drawn if one["draw"] == draw]))
        print(row(f"draw {draw}, still reported", [one for one in still if one["draw"] == draw]))
    for one in drawn if options.gone else ():
        if one not in still:
            print(f"gone, {one['verdict']}: {one['repo']} {one['path']}:{one['line']} {one['code']}: {one['cause']}")


if __name__ == "__main__":
    main()
