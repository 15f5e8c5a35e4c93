"""Targets are proven on the simulated device everywhere, and the same tests once more on a GPU where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphsafe import cli  # noqa: E402
from graphsafe.capture.api import capture_all  # noqa: E402
from graphsafe.capture.parent.supervision.servers import Server  # noqa: E402
from graphsafe.capture.request import CaptureRequest  # noqa: E402
from graphsafe.config import Config  # noqa: E402
from graphsafe.report.json_form import render_json  # noqa: E402

TARGETS = Path(__file__).parent / "targets"
ROOT = Path(__file__).parents[2]
GPUS = torch.cuda.device_count()

ON_GPU = pytest.param("cuda:0", marks=[pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a GPU")])
DEVICES = ["sim:0", ON_GPU]

Report = dict[str, Any]
Prove = Callable[..., list[Report]]


@pytest.fixture(scope="session")
def prove(valid_report: Callable[[str], Any]) -> Prove:
    """Reports, as JSON that holds to the schema, of targets on one device."""

    def prove(
        targets: Sequence[str], device: str, root: Path = TARGETS, kept: Server | None = None, **options: Any
    ) -> list[Report]:
        requests = [CaptureRequest(target, Config(root=root), devices=(device,), **options) for target in targets]
        return [valid_report(render_json(report)) for report in capture_all(requests, kept=kept)]

    return prove


class Reports(dict[str, Report]):
    """Reports by the name of their target, which is the end of its path. Those that only slow tests read are proven
    when one of them is asked for, all others when one of those is."""

    def __init__(
        self, prove: Prove, path: str, device: str, names: Iterable[str], slow: Collection[str] = (), **options: Any
    ) -> None:
        super().__init__()
        self._prove = lambda names: prove([path + name for name in names], device, **options)
        self._names, self._slow = tuple(names), slow

    def __missing__(self, name: str) -> Report:
        together = [one for one in self._names if (one in self._slow) == (name in self._slow)]
        self.update(zip(together, self._prove(together), strict=True))
        return self[name]


def marked(names: Iterable[str], slow: Collection[str]) -> list[Any]:
    """Parameters of a test, the slow ones with their mark."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


@dataclass
class Answer:
    code: int
    out: str
    err: str
    report: Report | None


@pytest.fixture
def command(
    tmp_path: Path,
    valid_report: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Answer]:
    """`graphsafe capture` as a user runs it, in an empty folder.

    With an environment of its own or other options it is a process of its own; else it runs here, where torch is
    imported once for all tests.
    """

    def run(*arguments: str, env: Mapping[str, str] = MappingProxyType({}), **options: Any) -> Answer:
        if env or options:
            code, out, err = _started(tmp_path, arguments, env, options)
        else:
            monkeypatch.chdir(tmp_path)
            capfd.readouterr()
            code = cli.main(["capture", *arguments])
            out, err = capfd.readouterr()
        written = tmp_path / "graphsafe-report.json"
        report = valid_report(written.read_text(encoding="utf-8")) if written.exists() else None
        return Answer(code, out, err, report)

    return run


def _started(
    folder: Path, arguments: Sequence[str], env: Mapping[str, str], options: Mapping[str, Any]
) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **env}
    command = [sys.executable, "-m", "graphsafe", "capture", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False, **options
    )
    return done.returncode, done.stdout, done.stderr


def probes_of(report: Report) -> dict[str, Any]:
    probes: dict[str, Any] = report["devices"][0]["probes"]
    return probes


def codes_of(report: Report, *levels: str) -> list[str]:
    return [finding["code"] for finding in report["findings"] if not levels or finding["level"] in levels]


def processes_with(variable: str) -> list[int]:
    """Those that run with this in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if variable.encode() in environment and state != "Z":
                found.append(int(entry.name))
    return found
