"""Check that scans give equal reports: cold, warm, with more processes, after a killed scan, or beside another scan.

    python benchmarks/scan/identical_reports.py FOLDER|WHEEL[:FOLDER...]|atlas ... [--before PYTHON]

First the Python files are copied into a new project. From a wheel, these are all files or the files in some folders
(`vllm-0.33.0.whl:vllm/v1,vllm/model_executor`). `atlas` stands for the measured snippets of atlas_accuracy.py. Each
scan is a separate process. Prints the differences from a scan without a cache, and exits with 1 if there are any.
`--before` only compares one scan without a cache with that of another installed graphsafe. Use it after a change that
must not change reports.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import graphsafe
from graphsafe.scan.cache.folder import FOLDER as CACHE

Report = dict[str, object]
OURS = str(Path(graphsafe.__file__).resolve().parents[1])
"The folder from which this process imports graphsafe."
COMMAND = ("-m", "graphsafe", "scan", ".", "--format", "json")


def begun(project: Path, *options: str, before: Path | None = None) -> subprocess.Popen[str]:
    """Start a scan in a new process group, with this graphsafe or with the graphsafe of the Python `before`."""
    ours = {} if before is not None else {"PYTHONPATH": OURS}
    return subprocess.Popen(
        [str(before or sys.executable), *COMMAND, *options],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **ours},
        start_new_session=True,
    )


def said(scan: subprocess.Popen[str]) -> Report:
    """Return the report without the time at which it was made."""
    text, _ = scan.communicate()
    report: Report = json.loads(text)
    del report["created"]
    return report


def forget(project: Path) -> None:
    shutil.rmtree(project / CACHE, ignore_errors=True)


def reports(project: Path) -> Iterator[tuple[str, Report]]:
    """Yield the condition and the report of each scan. The other reports are compared with the first one."""
    start = time.monotonic()
    yield "without a cache, one process", said(begun(project, "--no-cache", "-j1"))
    seconds = time.monotonic() - start
    yield "cold, one process", said(begun(project, "-j1"))
    yield "warm", said(begun(project))
    forget(project)
    yield "the cache deleted, two processes", said(begun(project, "-j2"))
    touched(project)
    yield "after touching a file", said(begun(project))
    with edited(project):
        yield "after a comment at the end of a file", said(begun(project))
    forget(project)
    killed(begun(project, "-j2"), seconds * 0.9)
    yield "after a kill at 0.9 of a cold scan", said(begun(project))
    forget(project)
    for scan in [begun(project), begun(project)]:
        yield "cold, beside another", said(scan)
    for scan in [begun(project), begun(project)]:
        yield "warm, beside another", said(scan)
    forget(project)
    scan = begun(project)
    time.sleep(seconds * 0.5)
    forget(project)
    yield "the cache deleted meanwhile", said(scan)


def before_and_now(project: Path, before: Path) -> Iterator[tuple[str, Report]]:
    """Yield the report of another installed graphsafe and the report of this graphsafe."""
    yield "before", said(begun(project, "--no-cache", "-j1", before=before))
    yield "now", said(begun(project, "--no-cache", "-j1"))


def helper(project: Path) -> Path:
    """Return the file whose name is imported most often. Without imports, return the first file."""
    files = sorted(project.rglob("*.py"))
    text = "\n".join(path.read_text("utf-8", "replace") for path in files[:200])
    return max(files, key=lambda path: text.count(f"{path.stem} import"))


def touched(project: Path) -> None:
    os.utime(helper(project))


class edited:
    """A context in which one file has a comment at its end."""

    def __init__(self, project: Path) -> None:
        self._path = helper(project)
        self._before = self._path.read_bytes()

    def __enter__(self) -> None:
        self._path.write_bytes(self._before + b"\n# a comment\n")

    def __exit__(self, *_: object) -> None:
        self._path.write_bytes(self._before)


def killed(scan: subprocess.Popen[str], seconds: float) -> None:
    time.sleep(seconds)
    os.killpg(scan.pid, signal.SIGKILL)
    scan.communicate()


def project_of(source: str, folder: Path) -> Path:
    project = folder / Path(source.partition(":")[0]).name
    project.mkdir()
    (project / "pyproject.toml").write_text("")
    if source == "atlas":
        from atlas_accuracy import GROUPS, WRAPPINGS, snippets_of

        for name in GROUPS:
            for number, snippet in enumerate(snippets_of(name)):
                text = WRAPPINGS["attributes"](snippet.step)
                (project / f"{name}{number:03}.py").write_text(text, encoding="utf-8")
    elif ".whl" in source:
        from corpus import unpack

        wheel, _, folders = source.partition(":")
        unpack(Path(wheel), project, tuple(f"{folder}/" for folder in folders.split(",") if folder))
    else:
        shutil.copytree(source, project, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CACHE))
    return project


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--before", type=Path, metavar="PYTHON")
    options = parser.parse_args(arguments)
    different = 0
    for source in options.sources:
        with tempfile.TemporaryDirectory() as folder:
            project = project_of(source, Path(folder))
            expected: Report | None = None
            for what, report in before_and_now(project, options.before) if options.before else reports(project):
                expected = expected or report
                findings = report["findings"]
                assert isinstance(findings, list)
                same = report == expected
                different += not same
                print(f"{source}: {what}: {len(findings)} findings, {'the same' if same else 'DIFFERENT'}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
