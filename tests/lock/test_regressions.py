"""What a lock keeps of a report, and which changes it calls worse: pure functions over entries and reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphsafe.errors import RequestError
from graphsafe.lock import file
from graphsafe.lock.proven import Proven, Spread, proven_by
from graphsafe.lock.regressions import Comparison, compared
from graphsafe.report.model import (
    Bucket,
    DeviceResult,
    Environment,
    Finding,
    Limit,
    Location,
    Report,
    Tool,
    Verdict,
)

GPU = "cuda:0 NVIDIA H200 (capability 9.0)"
READ = Finding(
    code="GS101",
    rule="scalar-read",
    level="error",
    confidence="proven",
    source="capture",
    device="cuda:0",
    location=Location("cache.py", 41, 9, 41, 20, "Cache.read"),
    call_chain=(),
    message="`length.item()` makes the host read a device value",
    why="",
    fix="",
)


def probes(kernels: int = 12, waits: int = 0, pool: int = 1 << 20, graph_ms: float = 0.5, **timing: Any) -> Any:
    spread = (graph_ms * 0.98, graph_ms * 1.02)
    return {
        "capture": {"status": "pass", "nodes": {"kernel": kernels, "memcpy": 1}},
        "step": {
            "status": "pass",
            "syncs": waits,
            "copies": 0,
            "by_line": [{"place": "cache.py:41", "kinds": {"read": waits}}] if waits else [],
        },
        "memory": {
            "status": "pass",
            "pool_bytes": pool,
            "pool": {
                "bytes": pool,
                "allocated": pool,
                "count": 1,
                "kept": 0,
                "lines": [{"place": "cache.py:50", "bytes": pool, "allocated": pool, "count": 1, "kept": 0}],
            },
        },
        "timing": {
            "status": "pass",
            "eager_ms": 1.0,
            "graph_ms": graph_ms,
            "eager_spread_ms": [0.99, 1.01],
            "graph_spread_ms": list(spread),
            **timing,
        },
    }


def report(
    verdict: Verdict = "ready", device: str = "cuda:0", findings: tuple[Finding, ...] = (), **seen: Any
) -> Report:
    buckets = tuple(Bucket({"batch": size}, verdict, probes(**seen)) for size in (1, 8))
    return Report(
        tool=Tool("graphsafe", "0"),
        command="capture",
        created="2026-01-01T00:00:00+00:00",
        environment=Environment("3.11", "2.11.0", "13.0", "13.0", (GPU, "sim:0"), "torch-2.11", {}),
        target="model.py:build",
        verdict=verdict,
        evidence="measured",
        findings=findings,
        limits=(Limit("simulated", "sim:0", "no GPU"),),
        devices=(DeviceResult(device, verdict, buckets, probes(**seen)),),
    )


def against(before: Report, after: Report) -> Comparison:
    return compared("decode", proven_by(before), proven_by(after), after)


def test_an_entry_a_bucket_of_a_kind_of_device() -> None:
    entries = proven_by(report())
    assert list(entries) == [("NVIDIA H200", "batch=1", None), ("NVIDIA H200", "batch=8", None)]
    entry = entries["NVIDIA H200", "batch=8", None]
    assert (entry.verdict, entry.nodes, entry.waits, entry.pool_bytes) == (
        "ready",
        {"kernel": 12, "memcpy": 1},
        0,
        1 << 20,
    )
    assert entry.speedup == Spread(2.0, pytest.approx(0.99 / 0.51, abs=1e-3), pytest.approx(1.01 / 0.49, abs=1e-3))
    assert entry.replay_ms == Spread(0.5, 0.49, 0.51)
    shared = proven_by(report(shared=True))["NVIDIA H200", "batch=1", None]
    assert (shared.speedup, shared.replay_ms) == (None, None)


def test_each_line_is_told_with_whether_the_change_introduced_it() -> None:
    def introduced(path: str, line: int) -> str:
        return f"; {path} {line} is new" if line == 41 else "; old"

    before, after = report(), report("not-ready", findings=(READ,), waits=2, pool=3 << 20)
    texts = compared("decode", proven_by(before), proven_by(after), after, introduced).worse
    assert texts[0].endswith("makes the host read a device value (GS101); cache.py 41 is new")
    assert texts[1] == "decode, batch 1: 0 → 2 waits in an eager step; cache.py:41; cache.py 41 is new"
    assert texts[2].endswith("most of it is taken at cache.py:50; old")


def test_nothing_new_is_nothing_worse() -> None:
    found = against(report(), report())
    assert (found.worse, found.better, found.skipped, found.compared) == ((), (), (), 2)


def test_a_verdict_is_told_with_the_line() -> None:
    found = against(report(), report("not-ready", findings=(READ,), waits=2))
    assert found.worse[:2] == (
        "decode, batch 1: ready → not-ready; cache.py:41 `length.item()` makes the host read a device value (GS101)",
        "decode, batch 1: 0 → 2 waits in an eager step; cache.py:41",
    )
    assert not found.better
    back = against(report("not-ready", findings=(READ,), waits=2), report())
    assert not back.worse and len(back.better) == 4


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ({"kernels": 14}, "12 → 14 kernel nodes"),
        ({"pool": 3 << 20}, "the graph's pool 1.0 MiB → 3.0 MiB; most of it is taken at cache.py:50"),
        (
            {"graph_ms": 0.9},
            "a replay 0.5 ms (0.49 to 0.51) → 0.9 ms (0.882 to 0.918), 2 → 1.11 times as fast as the eager step",
        ),
    ],
)
def test_numbers_that_grew_are_worse_and_that_shrank_are_better(seen: Any, text: str) -> None:
    assert against(report(), report(**seen)).worse == (f"decode, batch 1: {text}", f"decode, batch 8: {text}")
    assert not against(report(**seen), report()).worse
    assert len(against(report(**seen), report()).better) == 2


def test_a_time_within_the_spread_that_was_measured_is_the_same() -> None:
    assert not against(report(), report(graph_ms=0.515)).worse
    assert against(report(), report(graph_ms=0.55)).worse


@pytest.mark.parametrize(
    ("eager_ms", "graph_ms"), [(0.5, 0.5), (1.5, 0.7)], ids=["the eager step is faster", "both are slower"]
)
def test_the_replay_and_its_gain_have_to_agree(eager_ms: float, graph_ms: float) -> None:
    """Two runs of one commit on one H200 differ so: by the load of its host."""
    other = report(graph_ms=graph_ms, eager_ms=eager_ms, eager_spread_ms=[eager_ms * 0.99, eager_ms * 1.01])
    found = against(report(), other)
    assert (found.worse, found.better) == ((), ())
    back = against(other, report())
    assert (back.worse, back.better) == ((), ())


def test_a_lock_without_times_of_replays_says_nothing_about_them() -> None:
    older = {key: replace(entry, replay_ms=None) for key, entry in proven_by(report()).items()}
    after = report(graph_ms=0.9)
    assert not compared("decode", older, proven_by(after), after).worse


def test_what_was_not_run_or_not_locked_is_said() -> None:
    only = replace(report(), devices=(replace(report().devices[0], buckets=report().devices[0].buckets[:1]),))  # type: ignore[index]
    (gone,) = against(report(), only).worse
    assert gone == "decode, batch 8: was ready, and no longer runs; --update-lock removes it"
    (new,) = against(only, report()).worse
    assert new.startswith("decode, batch 8: not in the lock")
    (unknown,) = compared("decode", {}, proven_by(report()), report()).worse
    assert unknown.startswith("decode: not in the lock")
    other = against(report(), report(device="sim:0"))
    assert (other.worse, other.compared) == ((), 0)
    assert other.skipped == (
        "decode: skipped on NVIDIA H200, which this machine does not have",
        "decode: the lock has no entry for sim",
    )


def test_the_file_says_all_of_it_and_keeps_what_it_was_not_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "graphsafe.lock"
    assert file.read(path) == {}
    lock = file.joined({}, {"decode": proven_by(report()), "tests/test_x.py::build": proven_by(report(device="sim:0"))})
    file.write(path, lock)
    assert file.read(path) == lock
    assert '[[target."tests/test_x.py::build"]]' in path.read_text()
    text = path.read_text()
    assert text == file.text_of(file.read(path))
    now = {"decode": proven_by(report(device="sim:0"))}
    assert {device for device, _, _ in file.joined(lock, now)["decode"]} == {"NVIDIA H200", "sim"}
    assert "decode" not in file.joined(lock, {}, ["decode"])


def test_buckets_are_written_by_their_numbers() -> None:
    entries = [Proven(device="sim", bucket=f"batch={size}", verdict="ready", nodes={}) for size in (16, 2, 8)]
    text = file.text_of({"decode": {entry.key: entry for entry in entries}})
    assert [line for line in text.splitlines() if "bucket" in line] == [f'bucket = "batch={n}"' for n in (2, 8, 16)]


@pytest.mark.parametrize(
    "text", ["version = 2\n", "[[target.x]\n", "version = 1\n[[target.x]]\ndevice = 1\n", "version = 1\ntarget = 3"]
)
def test_a_file_that_is_no_lock_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "graphsafe.lock"
    path.write_text(text)
    with pytest.raises(RequestError, match=r"graphsafe\.lock: "):
        file.read(path)
