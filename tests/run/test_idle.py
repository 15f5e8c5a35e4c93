"""The share of time in which the GPU idles: NVML is read beside the program, and the ledger says what it knows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from graphsafe.errors import RequestError
from graphsafe.report.json_form import parse_saved, render_json
from graphsafe.report.ledger.html_form import with_processes
from graphsafe.report.ledger.model import Idle, Ledger
from graphsafe.report.ledger.terminal import processes_text
from graphsafe.rulebook.book import load_rulebook
from graphsafe.run.counters import Count, Order
from graphsafe.run.facts import DeviceFacts, ProcessFacts
from graphsafe.run.parent import idle
from graphsafe.run.parent.idle import Nvml, NvmlError, Readings
from graphsafe.run.parent.launch import run_program
from graphsafe.run.parent.merge import ledger_of
from graphsafe.run.part import Options, Part
from tests.conftest import ValidReport

pytestmark = pytest.mark.child
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED = 3, 4, 9


@dataclass
class Library:
    """NVML's functions, with the errors that they return."""

    gpus: list[tuple[str, int | None]]
    "UUID and percent; no percent in MIG mode."
    start: int = 0
    "The result of its start."
    hidden: tuple[int, ...] = ()
    "Indices of GPUs that this container may not use."
    gate: threading.Event | None = None
    "Its start waits for this."
    closed: threading.Event = field(default_factory=threading.Event)

    def nvmlInit_v2(self) -> int:
        if self.gate is not None:
            self.gate.wait()
        return self.start

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, gpu: Any) -> int:
        gpu._obj.value = index.value + 1
        return NO_PERMISSION if index.value in self.hidden else 0

    def nvmlDeviceGetUUID(self, gpu: Any, text: Any, size: Any) -> int:
        text.value = f"GPU-{self.gpus[gpu.value - 1][0]}".encode()
        return 0

    def nvmlDeviceGetUtilizationRates(self, gpu: Any, utilization: Any) -> int:
        percent = self.gpus[gpu.value - 1][1]
        utilization._obj.gpu = percent or 0
        return NOT_SUPPORTED if percent is None else 0

    def nvmlShutdown(self) -> int:
        self.closed.set()
        return 0


def loaded(monkeypatch: pytest.MonkeyPatch, library: Library | None) -> None:
    def load(name: str) -> Library:
        if library is None:
            raise OSError(name)
        return library

    monkeypatch.setattr(idle.ctypes, "CDLL", load)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_each_gpu_that_tells_is_known_by_its_uuid() -> None:
    library = Library([("a", 40), ("b", None), ("c", 7), ("d", 0)], hidden=(2,))
    assert Nvml(library).busy() == {"a": 40, "d": 0}


def test_a_library_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NvmlError, match="nvmlInit_v2 of NVML failed with error 9"):
        Nvml(Library([], start=DRIVER_NOT_LOADED))
    loaded(monkeypatch, None)
    with pytest.raises(NvmlError, match=r"libnvidia-ml\.so\.1 cannot be loaded"):
        Nvml.load()


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)", 143),
    ],
)
def test_gpus_are_read_while_the_program_runs(monkeypatch: pytest.MonkeyPatch, ending: str, code: int) -> None:
    library = Library([("a", 40)])
    loaded(monkeypatch, library)
    ran = run_program(python(f"import os, signal, time; time.sleep(1); {ending}"), Options())
    assert ran.exit_code == code and ran.readings.problem is None and library.closed.wait(10)
    assert ran.readings.taken and {tuple(busy.items()) for _, busy in ran.readings.taken} == {(("a", 40),)}


def test_a_run_neither_waits_for_nvml_nor_fails_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library([("a", 40)], gate=threading.Event())
    loaded(monkeypatch, library)
    assert run_program(python("pass"), Options()).exit_code == 0
    assert library.gate is not None and not library.closed.is_set()
    library.gate.set()
    loaded(monkeypatch, None)
    ran = run_program(python("import sys; sys.exit(3)"), Options())
    assert (ran.exit_code, ran.readings.problem) == (3, "libnvidia-ml.so.1 cannot be loaded")


def test_nothing_is_loaded_for_the_simulated_device_or_a_missing_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle.ctypes, "CDLL", lambda name: pytest.fail("loaded"))
    assert run_program(python("pass"), Options(devices=("sim",))).readings == Readings()
    with pytest.raises(RequestError):
        run_program(["no-such-program"], Options())


def readings(*percents: Mapping[str, int], every: float = 0.25) -> Readings:
    return Readings([(START + int(at * every * SECOND), busy) for at, busy in enumerate(percents)])


def test_the_share_counts_windows_within_the_replays_alone() -> None:
    seen = readings(*[{"a": 100, "b": 100}] * 8, *[{"a": 25, "b": 75}] * 12, *[{"a": 0, "b": 0}] * 8)
    first, last = START + SECOND, START + 5 * SECOND - 1  # from reading 8 on, to reading 19
    assert seen.idle(["a"], first, last) == Idle(0.75, 4.0)
    assert seen.idle(["a", "b"], first, last) == Idle(0.5, 4.0)


def test_a_short_time_or_a_gpu_that_does_not_tell_is_unknown() -> None:
    seen = readings(*[{"a": 50}] * 12)
    assert seen.idle(["a"], START, START + 3 * SECOND) == Idle(0.5, 3.0)
    assert seen.idle(["a"], START, START + 2 * SECOND) is None
    assert seen.idle(["a", "mig"], START, START + 3 * SECOND) is None
    assert seen.idle([], START, START + 3 * SECOND) is None
    assert Readings().idle(["a"], START, START + 3 * SECOND) is None


def ledger(seen: Readings, *gpus: str, replays: int = 9) -> Ledger:
    """Return the ledger of a process with a graph on these GPUs, replayed for three seconds."""
    from graphsafe.report.model import CallSite
    from graphsafe.run.child.records import GraphRecord
    from graphsafe.run.child.sight import Contents

    place = (CallSite(path=__file__, line=1, function="capture"),)
    about = (0, place, None, "default stream", "MainThread", "cuda:0", START)
    record = GraphRecord(*about, slot=0, handled=0, contents=Contents({"kernel": 1}))
    facts = ProcessFacts(graphs=(record.facts(),), device=DeviceFacts(gpus=gpus), ended=True)
    count = Count(replays, START, START + 3 * SECOND) if replays else Count(0, 0, 0)
    part = Part("1-a", "", START, facts, (count,), Order())
    return ledger_of([part], ["python"], 0, load_rulebook(), seen)


def unread(found: Ledger) -> list[str]:
    return [limit.why for limit in found.limits if limit.what == "the share of time in which the GPU idles"]


def test_every_form_of_the_ledger_has_it(valid_report: ValidReport) -> None:
    found = ledger(readings(*[{"a": 37}] * 12), "a")
    text = render_json(found)
    saved = valid_report(text)["processes"][0]["idle"]
    assert saved == {"share": 0.63, "seconds": 3.0, "source": "NVML, the whole GPU"} and unread(found) == []
    assert parse_saved(text) == found
    said = "he GPU idled 63 % of 3 s between first and last replay (NVML, the whole GPU)"
    assert said in processes_text(found, colour=False, width=120)
    assert said in with_processes("<h2>Environment</h2>", found)


def test_a_share_that_is_not_known_is_null_and_a_limit_says_why(valid_report: ValidReport) -> None:
    missing = ledger(Readings(problem="no library"), "a")
    assert valid_report(render_json(missing))["processes"][0]["idle"] is None
    assert unread(missing) == ["no library"]
    assert "NVML reported too little" in unread(ledger(readings({"a": 37}), "a"))[0]
    assert unread(ledger(Readings())) == unread(ledger(Readings(), "a", replays=0)) == []
    assert "idled" not in processes_text(missing, colour=False, width=120)


def test_a_ledger_of_a_version_without_it_is_read() -> None:
    text = render_json(ledger(Readings()))
    older = text.replace(',\n      "idle": null', "")
    assert older != text and parse_saved(older) == parse_saved(text)
