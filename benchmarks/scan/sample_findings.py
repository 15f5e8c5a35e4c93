"""Draw findings of a package at random, and print them with their source, so that a reader can judge them.

The judgements are in docs/accuracy/judged.md. Findings are drawn in the order of a hash of their place. So the order
stays the same if there are more or fewer findings.

    pip download --no-deps sglang==0.5.23
    python benchmarks/scan/sample_findings.py sglang-0.5.23-*.whl 40
    python benchmarks/scan/sample_findings.py transformers-5.17.0-*.whl 40 20261124
    python benchmarks/scan/sample_findings.py vllm-0.33.0-*.whl 60 20261124     # less its marks and third_party
    python benchmarks/scan/sample_findings.py CHECKOUTS 60 20261125              # a folder of repositories, together

Without a seed after the count, the first draw of each package is printed.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from corpus import findings_above_note, unpack
from vllm_recall import prepare

from graphsafe.report.model import Finding

SEED = "graphsafe-1"
CONTEXT = 3
"The number of lines that are shown before and after a finding."


def turn(seed: str, path: str, finding: Finding) -> str:
    place = f"{seed}\0{path}\0{finding.location.line}\0{finding.location.column}\0{finding.code}"
    return hashlib.sha256(place.encode()).hexdigest()


def found_in(project: Path, above: Path) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of a project, each with its path from the folder `above`."""
    for finding in findings_above_note(project):
        path = Path(finding.location.path).resolve().relative_to(above).as_posix()
        if "third_party" not in path:
            yield path, finding


def main() -> int:
    source, count = Path(sys.argv[1]).resolve(), int(sys.argv[2])
    seed = sys.argv[3] if len(sys.argv) > 3 else SEED
    with tempfile.TemporaryDirectory() as name:
        if source.is_dir():
            above, projects = source, sorted(filter(Path.is_dir, source.iterdir()))
        else:
            above = Path(name).resolve()
            projects = [above]
            unpack(source, above)
            prepare(above)
        findings = [item for project in projects for item in found_in(project, above)]
        codes = Counter(finding.code for _, finding in findings)
        print(f"{len(findings)} findings: {', '.join(f'{code} {n}' for code, n in sorted(codes.items()))}\n")
        for number, (path, finding) in enumerate(sorted(findings, key=lambda item: turn(seed, *item))[:count], start=1):
            at = finding.location
            chain = " > ".join([*(site.function or "module level" for site in finding.call_chain), at.function or ""])
            print(f"## {number}. {path}:{at.line} {finding.code}\n{finding.message}\nby way of {chain}")
            lines = (above / path).read_text(encoding="utf-8").splitlines()
            for line in range(max(1, at.line - CONTEXT), min(len(lines), at.end_line + CONTEXT) + 1):
                print(f"{'>' if at.line <= line <= at.end_line else ' '} {line:5} {lines[line - 1]}")
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
