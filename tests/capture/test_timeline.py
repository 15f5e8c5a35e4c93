"""The step in time: what is made of a profile, what the profiler records of a step on this machine's CPU, and the order
that the simulated device tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity

from graphsafe import cli
from graphsafe.capture.device.cuda.kineto import LINE, STEP, Event, timeline_of
from graphsafe.capture.device.cuda.profiles import Lines, profiled
from graphsafe.report.probes.timeline import Timeline, gaps_by_line

MAIN, BACKWARD = 11, 12


class Profile:
    """A profile made by hand, in the form that `torch.profiler` exports on a GPU; none was recorded for these tests."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, category: str, name: str, begin: float, us: float, thread: int = MAIN, **arguments: object) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": us}
        self.events.append({**event, "args": arguments})

    def call(self, name: str, begin: float, us: float, correlation: int, thread: int = MAIN) -> None:
        self.add("cuda_runtime", name, begin, us, thread, correlation=correlation, cbid=211)

    def kernel(self, begin: float, us: float, correlation: int, stream: int = 7) -> None:
        self.add("kernel", "gemm", begin, us, stream, correlation=correlation, stream=stream, device=0)


def step() -> Profile:
    """Two launches, a read of the host, a late launch, and a launch while the device still works."""
    profile = Profile()
    profile.events.append({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}})
    profile.add("user_annotation", STEP, 1000, 200)
    profile.add("gpu_user_annotation", STEP, 1012, 180, 7)
    profile.call("cudaLaunchKernel", 900, 5, 1)  # before the step
    profile.kernel(905, 20, 1)
    profile.call("cudaStreamIsCapturing", 1001, 1, 2)
    profile.call("cudaLaunchKernel", 1010, 5, 3)
    profile.kernel(1020, 30, 3)
    profile.call("cudaLaunchKernel", 1016, 5, 4)
    profile.kernel(1050.5, 9.5, 4)
    profile.call("cudaMemcpyAsync", 1024, 4, 5)
    profile.add("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 1060, 2, 7, correlation=5, stream=7, bytes=4)
    profile.call("cudaStreamSynchronize", 1030, 40, 6)
    profile.add("cuda_driver", "cuLaunchKernel", 1090, 5, correlation=7)
    profile.kernel(1100, 60, 7)
    profile.call("cudaLaunchKernel", 1110, 5, 8, BACKWARD)
    profile.kernel(1180, 30, 8, stream=9)
    profile.call("cudaDeviceSynchronize", 1240, 10, 9)  # after the step
    return profile


def marked(lines: Callable[[Profile], None] = lambda profile: None) -> list[Event]:
    """The same step, with marks around its lines, and slower by half."""
    profile = step()
    for event in profile.events:
        if event["ph"] == "X":
            event["ts"], event["dur"] = event["ts"] * 1.5, event["dur"] * 1.5
    for number, (begin, end) in enumerate([(1005, 1022), (1022, 1075), (1080, 1100), (1105, 1190), (1106, 1108)]):
        profile.add("cpu_op", f"{LINE}{number}", begin * 1.5, (end - begin) * 1.5)
    lines(profile)
    return profile.events


PLACES = [f"/code/m.py:{line}" for line in (4, 5, 6, 7, 8)]


def test_lanes_times_and_the_work_that_a_wait_waited_for() -> None:
    seen = timeline_of(step().events)
    host = [(one.kind, one.begin_us, one.us) for one in seen.operations or () if one.lane == "host"]
    assert host == [
        ("launch", 10, 5),
        ("launch", 16, 5),
        ("copy", 24, 4),
        ("wait", 30, 40),
        ("launch", 90, 5),
        ("launch", 110, 5),
    ]
    device = [(one.kind, one.begin_us, one.us, one.stream) for one in seen.operations or () if one.lane == "device"]
    assert device == [
        ("kernel", 20, 30, 7),
        ("kernel", 50.5, 9.5, 7),
        ("copy", 60, 2, 7),
        ("kernel", 100, 60, 7),
        ("kernel", 180, 30, 9),
    ]
    (wait,) = seen.of_kind("wait")
    assert wait.behind_us == 31.5  # of its 40 the device worked 20, 9.5 and 2
    assert (seen.step_us, seen.busy_us) == (210, 131.5)
    assert seen.told() == "of 0.21 ms the device works 0.132 ms, idles 0.0785 ms"


def test_gaps_have_a_cause_and_a_line() -> None:
    seen = timeline_of(step().events, marked(), PLACES)
    gaps = [(gap.cause, gap.place, gap.begin_us, gap.us) for gap in seen.gaps or ()]
    assert gaps == [
        ("host", "/code/m.py:4", 0, 20),
        ("wait", "/code/m.py:5", 62, 38),
        ("device", "/code/m.py:7", 160, 20),
    ]
    assert [row[1:] for row in gaps_by_line(seen.gaps or ())] == [
        ("/code/m.py:5", 38, 1),
        ("/code/m.py:4", 20, 1),
        ("/code/m.py:7", 20, 1),
    ]


def test_lines_are_told_as_far_as_both_profiles_made_the_same_calls() -> None:
    places = [one.place for one in timeline_of(step().events, marked(), PLACES).operations or () if one.lane == "host"]
    assert places == [PLACES[0], PLACES[0], PLACES[1], PLACES[1], PLACES[2], PLACES[3]]

    def other_copy(profile: Profile) -> None:
        next(one for one in profile.events if one["name"] == "cudaMemcpyAsync")["name"] = "cudaMemsetAsync"

    some = timeline_of(step().events, marked(other_copy), PLACES)
    places = [one.place for one in some.operations or () if one.lane == "host"]
    assert places == [PLACES[0], PLACES[0], None, PLACES[1], PLACES[2], PLACES[3]]
    assert {one.place for one in timeline_of(step().events).operations or ()} == {None}


def test_an_allocation_that_only_one_profile_has_takes_no_line_from_others() -> None:
    plain = step()
    plain.call("cudaMalloc", 1022, 1, 20)
    plain.call("cudaMalloc", 1080, 1, 21)
    lines = [
        (one.kind, one.place)
        for one in timeline_of(plain.events, marked(), PLACES).operations or ()
        if one.lane == "host"
    ]
    kept = [PLACES[0], PLACES[0], PLACES[1], PLACES[1], PLACES[2], PLACES[3]]
    assert [place for kind, place in lines if kind != "allocation"] == kept
    assert [place for kind, place in lines if kind == "allocation"] == [None, None]

    def allocates(profile: Profile) -> None:
        profile.call("cudaMalloc", 1023 * 1.5, 0.5, 22)

    both = timeline_of(step().events, marked(allocates), PLACES).operations or ()
    assert [one.place for one in both if one.lane == "host"] == kept


def test_a_replay_is_one_launch_and_its_work_is_of_the_graph() -> None:
    profile = Profile()
    profile.add("user_annotation", STEP, 0, 50)
    profile.call("cudaGraphLaunch", 5, 10, 1)
    profile.kernel(12, 10, 1)
    profile.kernel(30, 10, 1)
    seen = timeline_of(profile.events)
    assert [(one.kind, one.in_graph) for one in seen.operations or ()] == [
        ("graph-launch", False),
        ("kernel", True),
        ("kernel", True),
    ]
    assert [(gap.cause, gap.us) for gap in seen.gaps or ()] == [("host", 12), ("device", 8)]


def test_a_profile_without_the_step_is_no_timeline() -> None:
    assert timeline_of([]) == Timeline("skipped", reason="the profiler recorded no step")


def test_the_profiler_records_the_step_and_the_lines_around_its_operations(tmp_path: Path) -> None:
    """On this machine's CPU, where the profiler knows operations and no calls of CUDA's."""
    file = tmp_path / "model.py"
    file.write_text(
        "def inner(x):\n    y = x + 1\n    return y.mul(2)\n\n\ndef step(x):\n    z = inner(x)\n    return z.exp()\n"
    )
    module: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), module)
    lines, x = Lines(), torch.ones(3)
    events = profiled(
        lambda: lines.run(lambda: module["step"](x)), lambda: None, tmp_path, activities=[ProfilerActivity.CPU]
    )
    timed = [event for event in events if event.get("ph") == "X"]
    (around,) = [event for event in timed if event["name"] == STEP]

    def line_of(name: str) -> str:
        (operation,) = [event for event in timed if event["name"] == name]
        assert around["ts"] <= operation["ts"] <= around["ts"] + around["dur"]
        marks = [event for event in timed if event["name"].startswith(LINE) and event["ts"] <= operation["ts"]]
        inside = [mark for mark in marks if mark["ts"] + mark["dur"] >= operation["ts"] + operation["dur"]]
        innermost = max(inside, key=lambda mark: mark["ts"])
        return lines.places[int(innermost["name"].removeprefix(LINE))]

    assert [line_of(name) for name in ("aten::add", "aten::mul", "aten::exp")] == [f"{file}:{n}" for n in (2, 3, 8)]
    assert not list(tmp_path.glob("*.json"))
    seen = timeline_of(events, events, lines.places)
    assert (seen.status, seen.busy_us, seen.operations) == ("pass", 0, ())


TARGET = """\
import torch


def build(device):
    model = torch.nn.Linear(4, 4).to(device)

    def step(x):
        y = model(x).relu()
        if y.sum().item() > 1e9:
            y = -y
        z = y.cpu().to(device)
        torch.cuda.synchronize()
        return model(z)

    return step, (torch.randn(2, 4, device=device),)
"""


@pytest.mark.child
def test_the_simulated_device_tells_the_order_and_no_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(TARGET)
    files = ["a.json", "trace.json", "b.TRACE.json", "page.html", "backtrace.json"]
    assert (
        cli.main(["capture", "m.py:build", "--device", "sim", *(word for file in files for word in ("-o", file))]) == 1
    )
    assert "4 launches, 2 copies and 2 waits, in order; their times are not measured" in " ".join(
        capsys.readouterr().out.split()
    )
    (device,) = json.loads(Path("a.json").read_text())["devices"]
    timeline = device["probes"]["timeline"]
    assert [(one["kind"], one["place"], one["count"]) for one in timeline["operations"]] == [
        ("launch", "m.py:8", 2),
        ("launch", "m.py:9", 1),
        ("wait", "m.py:9", 1),
        ("copy", "m.py:11", 2),
        ("wait", "m.py:12", 1),
        ("launch", "m.py:13", 1),
    ]
    assert [timeline[key] for key in ("step_us", "busy_us", "gaps", "replay")] == [None] * 4
    assert all(one[key] is None for one in timeline["operations"] for key in ("begin_us", "us", "behind_us"))

    trace = json.loads(Path("trace.json").read_text())
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"].endswith("_name")]
    assert names[0].startswith("m.py:build on sim:0 (order only: times are not measured")
    assert [event["dur"] for event in trace["traceEvents"] if event["ph"] == "X"] == [2, 1, 1, 2, 1, 1]
    assert json.loads(Path("b.TRACE.json").read_text()) == trace
    assert "schema" in json.loads(Path("backtrace.json").read_text())
    assert "Times are not measured" in Path("page.html").read_text()

    assert cli.main(["report", "a.json", "-o", "again.trace.json", "-o", "trace=named"]) == 0
    assert json.loads(Path("again.trace.json").read_text()) == json.loads(Path("named").read_text()) == trace


def test_only_a_capture_has_a_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(TARGET)
    assert cli.main(["scan", "m.py", "-o", "trace.json"]) == 2
    assert "graphsafe: -o trace.json: only a capture has a timeline" in capsys.readouterr().err
    assert not Path("trace.json").exists()
