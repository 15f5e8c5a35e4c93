"""Scan every Python file of a folder by itself. Any findings are accepted, but graphsafe must neither fail nor hang.

    python benchmarks/scan/each_file.py FOLDER [--seconds 20]

Each file has its own project. Every function is hot, so that all functions are read. A scan is stopped after
`--seconds` of CPU. Prints each file that raised an error, that has an `internal-error` among its limits, or that took
too long, and finally prints the counts.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from graphsafe.config import Config, FunctionPattern
from graphsafe.rulebook.book import load_rulebook
from graphsafe.scan.api import scan_paths


class TooLong(BaseException):
    """Raised if a file takes too long. It is not an Exception, because the engine would record that as a fault in one
    function and continue."""


def give_up(*_: object) -> None:
    raise TooLong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    rulebook = load_rulebook()
    seen: Counter[str] = Counter()
    slowest = (0.0, options.folder)
    signal.signal(signal.SIGPROF, give_up)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "alone.py"
        config = Config(root=path.parent, hot_paths=(FunctionPattern("*"),))
        for source in sorted(file for file in options.folder.rglob("*.py") if file.is_file()):
            path.write_bytes(source.read_bytes())
            seen["files"] += 1
            start = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, options.seconds)
            try:
                report = scan_paths([path], config, confidence="possible", rulebook=rulebook)
            except TooLong:
                seen["given up"] += 1
                print(f"{source}: given up after {options.seconds} s of CPU", flush=True)
                continue
            except Exception:
                seen["raised"] += 1
                print(f"{source} raised\n{traceback.format_exc()}", flush=True)
                continue
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            slowest = max(slowest, (time.process_time() - start, source))
            seen["findings"] += len(report.findings)
            for limit in report.limits:
                seen[limit.kind] += 1
                if limit.kind == "internal-error":
                    print(f"{source}: {limit.what}: {limit.why}", flush=True)
    print(f"{dict(seen)}, the slowest {slowest[0]:.2f} s of CPU: {slowest[1]}")
    return 1 if seen["raised"] or seen["given up"] or seen["internal-error"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
