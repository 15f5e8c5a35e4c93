"""Several ranks of one target: one report, the same children everywhere, and an end for all where one cannot go on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from graphsafe.capture.answers.build import TargetFailure
from graphsafe.capture.parent.ranks.coordinator import Coordinator
from graphsafe.capture.parent.ranks.divergence import first_difference
from graphsafe.capture.parent.ranks.launched import Launched
from graphsafe.capture.parent.ranks.rank import side_by_side
from graphsafe.capture.parent.supervision.child_process import Child
from graphsafe.capture.shared.collectives import Call
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.errors import RequestError
from graphsafe.report.model import CallSite

from .conftest import GPUS, TARGETS, Answer, Report, processes_with

pytestmark = [pytest.mark.child, pytest.mark.slow]

RANKS = TARGETS / "ranks.py"
ON_GPUS = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")])
DEVICES = ["sim", ON_GPUS]
Command = Callable[..., Answer]


def proven(command: Command, name: str, device: str, *options: str) -> tuple[Report, Answer]:
    """And nothing is left of it."""
    mark = f"{name}-{device}-{os.getpid()}"
    answer = command(f"{RANKS}:{name}", "--device", device, "--nproc", "2", *options, env={"GRAPHSAFE_TEST": mark})
    assert answer.report is not None
    assert not processes_with(f"GRAPHSAFE_TEST={mark}")
    return answer.report, answer


def codes(report: Report) -> list[tuple[str, str]]:
    return [(one["code"], one["device"]) for one in report["findings"] if one["level"] != "note"]


def line_of(text: str) -> int:
    lines = RANKS.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@pytest.mark.parametrize("device", DEVICES)
def test_each_rank_is_proven_and_told_in_one_report(device: str, command: Command) -> None:
    report, answer = proven(command, "sharded", device, "--replays", "20", "--bucket", "batch=1,2")
    assert (answer.code, report["verdict"]) == (0, "ready")
    assert [(one["rank"], one["device"]) for one in report["devices"]] == [(0, f"{device}:0"), (1, f"{device}:1")]
    for one in report["devices"]:
        probes = one["probes"]
        assert probes["replay"]["varied"] == 3 and all(check["equal"] for check in probes["replay"]["checks"])
        assert sum(probes["capture"]["nodes"].values()) >= 5 - 2 * (device == "cuda")
        assert probes["memory"]["growth"]["replays"] == 20
        assert one["pool"]["status"] == "pass" and [each["axes"]["batch"] for each in one["pool"]["buckets"]] == [2, 1]
    assert "rank 1" in answer.out


def test_the_tensor_of_a_collective_is_not_kept_between_replays(command: Command) -> None:
    report, _ = proven(command, "summed", "sim")
    pools = [one["probes"]["memory"]["pool"] for one in report["devices"]]
    result = f"ranks.py:{line_of('return hidden * 2')}"
    kept = [
        {line["place"].rpartition("/")[2]: line["kept"] for line in pool["lines"] if line["kept"]} for pool in pools
    ]
    assert kept == [{result: 128}] * 2


@pytest.mark.parametrize("target", ["counts", "counts_slowly", "decides_later"])
@pytest.mark.parametrize("device", DEVICES)
def test_the_verdict_is_that_of_the_worst_rank(device: str, target: str, command: Command) -> None:
    report, answer = proven(command, target, device)
    assert answer.code == 1
    assert [one["verdict"] for one in report["devices"]] == ["ready", "not-ready"]
    assert report["devices"][0]["probes"]["horizon"]["status"] == "pass"
    assert codes(report) == [("GS702", f"{device}:1")]


@pytest.mark.parametrize("device", DEVICES)
def test_a_rank_that_raises_ends_the_others(device: str, command: Command) -> None:
    report, answer = proven(command, "raises", device)
    assert answer.code == 2
    [line] = answer.err.strip().splitlines()
    where = f"ranks.py:{line_of('no such head')}"
    assert "in rank 1: the step failed: ValueError: no such head" in line and where in line
    assert [one["verdict"] for one in report["devices"]] == ["inconclusive", "inconclusive"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_rank_that_dies_in_its_capture_ends_the_others(device: str, command: Command) -> None:
    report, _ = proven(command, "dies", device)
    assert [one["verdict"] for one in report["devices"]] == ["inconclusive", "not-ready"]
    assert report["devices"][1]["probes"]["capture"]["status"] == "crashed"
    told = {limit["what"]: limit["why"] for limit in report["limits"] if limit["kind"] == "child"}
    assert "killed by SIGKILL" in told[f"capture of rank 1 on {device}:1"]
    assert f"ranks.py:{line_of('dist.all_reduce(y)')})" in told[f"capture of rank 1 on {device}:1"]
    assert "ended because rank 1 had ended" in told[f"capture of rank 0 on {device}:0"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_rank_that_hangs_is_named_with_its_line(device: str, command: Command) -> None:
    seconds = 4 if device == "sim" else 30
    report, answer = proven(command, "hangs", device, "--timeout", str(seconds))
    assert (answer.code, report["verdict"]) == (1, "inconclusive")
    reasons = [one["probes"]["step"]["reason"] for one in report["devices"]]
    assert all(f"not finished after {seconds} s" in reason for reason in reasons)
    assert f"ranks.py:{line_of('time.sleep(0.1)')}" in reasons[1] and "waits" not in reasons[1]


@pytest.mark.parametrize("device", DEVICES)
def test_a_collective_that_one_rank_issues_is_found(device: str, command: Command) -> None:
    report, answer = proven(command, "logs", device)
    assert (answer.code, report["verdict"]) == (2, "inconclusive")
    assert codes(report) == [("GS614", f"{device}:0")]
    [finding] = [one for one in report["findings"] if one["code"] == "GS614"]
    assert finding["location"]["line"] == line_of("dist.all_reduce(largest)")
    assert "the ranks do not issue the same collectives" in answer.err


@pytest.mark.parametrize("device", DEVICES)
def test_a_collective_that_nothing_waits_for_is_found(device: str, command: Command) -> None:
    report, answer = proven(command, "never_waits", device)
    if device == "sim":  # on a GPU such a step is a race, whose replays may be right
        assert answer.code == 1
    assert [one for one in codes(report) if one[0] == "GS615"] == [("GS615", f"{device}:0"), ("GS615", f"{device}:1")]
    lines = {one["location"]["line"] for one in report["findings"] if one["code"] == "GS615"}
    assert lines == {line_of("dist.all_reduce(z.clone(), async_op=True)")}


def launched(tmp_path: Path, each: Callable[[str], dict[str, str]]) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of rank 1 and of rank 0, as a launcher starts them; `each` rank's own variables."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    places = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "graphsafe", "capture", f"{RANKS}:sharded", "--device", "sim"],
            cwd=tmp_path,
            env={**environment, **places, "RANK": rank, **each(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("1", "0")
    ]
    said = [process.communicate(timeout=100) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, said, strict=True)]


def test_ranks_of_a_launcher_of_ones_own(tmp_path: Path, valid_report: Callable[[str], Any]) -> None:
    """Rank 0 writes the one report; the others end with its code."""
    port = str(os.getpid())
    follower, leader = launched(
        tmp_path, lambda rank: {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": port}
    )
    assert (follower[0], leader[0]) == (0, 0)
    assert follower[1] == "" and "rank 1" in leader[1]
    report = valid_report((tmp_path / "graphsafe-report.json").read_text(encoding="utf-8"))
    assert [one["rank"] for one in report["devices"]] == [0, 1]


def test_ranks_that_see_other_gpus_are_refused(tmp_path: Path) -> None:
    port = f"{os.getpid()}0"
    follower, leader = launched(tmp_path, lambda rank: {"CUDA_VISIBLE_DEVICES": rank, "MASTER_PORT": port})
    assert (follower[0], leader[0]) == (2, 2)
    assert "rank 0 ended without an answer" in follower[2]
    assert "each rank has a CUDA_VISIBLE_DEVICES of its own" in leader[2]


def test_wrong_requests(command: Command) -> None:
    assert "2 ranks need 2 devices" in command(f"{RANKS}:sharded", "--device", "sim:0", "--nproc", "2").err
    assert "--plan" in command(f"{RANKS}:sharded", "--device", "sim", "--nproc", "2", "--plan").err


def test_independent_devices_run_side_by_side(command: Command) -> None:
    answer = command(f"{RANKS}:alone", "--device", "sim:0", "--device", "sim:1")
    assert answer.report is not None and answer.code == 0
    assert [(one["device"], one["rank"]) for one in answer.report["devices"]] == [("sim:0", None), ("sim:1", None)]


def call(op: str, line: int, size: int | None = 4) -> Call:
    return Call(op, size, (CallSite("/m.py", line, "f"),), None)


def lines(found: Mapping[int, Call | None] | None) -> dict[int, int | None]:
    assert found is not None
    return {rank: told and told.frames[-1].line for rank, told in found.items() if told is None or told.extra}


def test_where_ranks_go_apart() -> None:
    root, rest = [call("broadcast", 1), call("all_reduce", 9)], [call("broadcast", 2), call("all_reduce", 9)]
    assert first_difference([root, rest]) is None
    assert lines(first_difference([[*root, call("all_reduce", 5)], rest])) == {0: 5, 1: None}
    # Paired with later ones of the other rank: the line that only one of them comes to is to blame.
    step, more = [call("all_reduce", 9)], [call("all_reduce", 9), call("all_reduce", 5)]
    assert lines(first_difference([step * 3, more * 3])) == {0: None, 1: 5}
    assert lines(first_difference([[call("all_reduce", 5, 1), *step], step * 2])) == {0: 5}
    assert lines(first_difference([[call("all_gather", 5)], step])) == {0: 5, 1: 9}


def test_a_launcher_is_known_by_its_variables() -> None:
    ours = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    assert Launched.by(ours) == Launched(1, 2)
    assert Launched.by({}) is None and Launched.by({"RANK": "0", "WORLD_SIZE": "1"}) is None
    with pytest.raises(RequestError, match="several machines"):
        Launched.by({**ours, "WORLD_SIZE": "4"})


def test_a_rank_that_leaves_ends_the_waiting_of_the_others() -> None:
    coordinator = Coordinator(2)
    said: list[list[Any]] = []

    def first() -> None:
        said.append(coordinator.gather(0, "a"))
        coordinator.gather(0, "c")

    def second() -> None:
        said.append(coordinator.gather(1, "b"))
        raise KeyboardInterrupt

    with contextlib.suppress(threading.BrokenBarrierError), pytest.raises(KeyboardInterrupt):
        side_by_side([first, second], coordinator.abandon)
    assert said[0] == ["a", "b"]


def test_what_a_rank_says_after_another_was_ended_is_due_to_that(tmp_path: Path) -> None:
    """At the time limit of all, each is ended by itself; one may see the others' connections close before."""
    coordinator = Coordinator(2)
    waiting, closed = (Child(Job("build", str(tmp_path / str(rank)), "t", "sim:0", rank=rank)) for rank in range(2))
    for child in (waiting, closed):
        Path(child.job.folder).mkdir()
        coordinator.started(child)
    waiting.stopped_at = time.monotonic()
    Channel(closed.job).send(TargetFailure("step", "closed", at=time.monotonic()))
    for child, ending in ((closed, None), (waiting, "timeout")):
        child.has_ended(None, ending)
        coordinator.ended(child)
    assert coordinator.first_to_fail(waiting) and not coordinator.first_to_fail(closed)


def test_who_waits_for_an_asynchronous_collective(tmp_path: Path) -> None:
    """Also under the modes that watch a step on a GPU, and where functions that wait are called by another name."""
    done = subprocess.run([sys.executable, "-c", WAITS, str(tmp_path)], capture_output=True, text=True, cwd=TARGETS)
    assert done.stdout.split() == ["all_reduce", "none", "all_reduce", "none"], done.stderr


WAITS = """
import sys
from pathlib import Path
import torch, torch.distributed as dist
from torch.overrides import TorchFunctionMode
from graphsafe.capture.device.cuda.trace import Running, traced
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.capture.child.ranks.issued import issued_noted
import waiting

place = Path(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{place}/store", rank=0, world_size=1)
job = Job("step", str(place), "t.py:f", "cuda:0", ranks=1)
with issued_noted(job, Channel(job)) as issued, traced(Running(lambda event: None)):
    for step in (waiting.drops, waiting.waits, waiting.drops_one_of_two, waiting.synchronous):
        step(torch.ones(2))
        told = [call.op for call in issued.never_waited()]
        print(*told or ["none"])
"""
