"""Every test that needs a GPU, by one command: `python -m tests.gpu.run`. The log is gpu-test.log; what the oracle and
capture said of each small module stands in gpu-modules.log and gpu-modules.json, in $OUT or here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """The exit code of pytest; arguments are passed on to it."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-s", "tests/gpu", "tests/capture", *arguments]
    with (ROOT / "gpu-test.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            log.write(line)
        return process.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
