"""`capture --all --locked`, `--update-lock` and `--shard` as a user runs them, on the simulated device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from graphsafe.cli import main

STEPS = """
import torch

def build(device, batch=2):
    model = torch.nn.Linear(4, 4).to(device)

    def step(x):
        y = model(x)
        return y

    return step, (torch.ones(batch, 4, device=device),)
"""
READS = STEPS.replace("        return y\n", "        return y if batch < 8 or y.sum() > 0 else x\n")
CONFIG = """
[targets.decode]
factory = "steps.py:build"
device = "sim"
buckets = {batch = [1, 8]}

[targets.gone]
factory = "nowhere.py:build"
device = "sim"
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.py").write_text(STEPS)
    Path("graphsafe.toml").write_text(CONFIG.partition("[targets.gone]")[0])


@pytest.mark.child
def test_the_gate_fails_on_what_got_worse_and_on_that_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--all", "--update-lock", "--format", "concise"]) == 0
    lock = Path("graphsafe.lock").read_text()
    assert lock.count("[[target.decode]]") == 2
    assert main(["capture", "--all", "--locked", "--format", "concise"]) == 0
    assert "2 entries compared, 0 regressions\n" in capsys.readouterr().err

    Path("steps.py").write_text(READS)
    assert main(["capture", "--all", "--locked", "--format", "concise"]) == 1
    err = capsys.readouterr().err
    assert (
        "decode, batch 8: ready → not-ready; steps.py:9 `y.sum() > 0` makes the host branch on a device value (GS102)"
        in err
    )
    assert "decode, batch 1" not in err
    assert Path("graphsafe.lock").read_text() == lock


@pytest.mark.child
@pytest.mark.slow
def test_the_gate_passes_what_is_locked_and_what_could_not_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    Path("graphsafe.toml").write_text(CONFIG)
    assert main(["capture", "--all", "--update-lock", "--format", "concise"]) == 2
    assert "gone could not be run, and has no entry" in capsys.readouterr().err
    lock = Path("graphsafe.lock").read_text()
    assert lock.count("[[target.decode]]") == 2 and "target.gone" not in lock
    assert main(["capture", "--all", "--locked", "--format", "concise"]) == 2
    err = capsys.readouterr().err
    assert "gone: could not be run, so it is not compared" in err and "not in the lock" not in err
    assert "2 entries compared, 0 regressions\n" in err
    assert Path("graphsafe.lock").read_text() == lock

    Path("graphsafe.toml").write_text(CONFIG.partition("[targets.gone]")[0])
    Path("steps.py").write_text(READS)
    # Once it is locked as it is, it passes: it is not ready, and has not become worse.
    assert main(["capture", "--all", "--update-lock", "--format", "concise"]) == 1
    assert main(["capture", "--all", "--locked", "--format", "concise"]) == 0
    assert "2 entries compared, 0 regressions" in capsys.readouterr().err


@pytest.mark.child
def test_nobody_gets_past_the_gate_by_taking_a_target_away(capsys: pytest.CaptureFixture[str]) -> None:
    kept, other = (f'[targets.{name}]\nfactory = "steps.py:build"\ndevice = "sim"\n' for name in ("a", "b"))
    Path("graphsafe.toml").write_text(kept + other)
    assert main(["capture", "--all", "--update-lock", "--format", "concise"]) == 0
    Path("graphsafe.toml").write_text(kept)
    assert main(["capture", "--all", "--locked", "--format", "concise"]) == 1
    err = capsys.readouterr().err
    assert "b: in the lock, but no longer a target; --update-lock removes it" in err and "1 regression" in err
    Path("graphsafe.toml").write_text("")
    assert main(["capture", "--all", "--allow-none", "--locked"]) == 1
    assert "a: in the lock, but no longer a target" in capsys.readouterr().err
    assert main(["capture", "--all", "--allow-none"]) == 0


@pytest.mark.child
def test_shards_are_all_targets_once_and_merge(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f'[targets.{name}]\nfactory = "steps.py:{name}"\ndevice = "sim"\n' for name in ("a", "b", "c")]
    Path("graphsafe.toml").write_text("\n".join(rows))
    for shard in ("1/2", "2/2"):
        main(["capture", "--all", "--shard", shard, "-o", f"shard-{shard[0]}.json"])
    counts = [len(json.loads(Path(f"shard-{number}.json").read_text())["reports"]) for number in (1, 2)]
    assert counts == [2, 1]
    capsys.readouterr()
    assert main(["report", "merge", "shard-2.json", "shard-1.json", "--format", "json", "-o", "all.json"]) == 0
    merged = json.loads(Path("all.json").read_text())
    assert merged["schema"] == "graphsafe/reports/1"
    assert sorted(report["target"] for report in merged["reports"]) == ["steps.py:a", "steps.py:b", "steps.py:c"]
    assert [(one["name"], one["shard"]) for one in merged["reports"]] == [("a", "1/2"), ("b", "2/2"), ("c", "1/2")]
    assert main(["capture", "--all", "--shard", "7/7", "-o", "none.json"]) == 0
    assert json.loads(Path("none.json").read_text())["reports"] == []
    assert main(["report", "shard-1.json", "shard-2.json"]) == 2
    capsys.readouterr()
    assert main(["report", "merge", "shard-1.json", "shard-1.json", "-o", "twice.json"]) == 2
    assert "shard-1.json and shard-1.json are both of shard 1/2" in capsys.readouterr().err
    assert not Path("twice.json").exists()
    assert main(["report", "merge", "shard-2.json", "-o", "part.json"]) == 2
    assert "missing: 1/2" in capsys.readouterr().err
    assert len(json.loads(Path("part.json").read_text())["reports"]) == counts[1]


@pytest.mark.parametrize(
    "arguments",
    [
        "steps.py:build --locked",
        "--all --locked --update-lock",
        "--all --locked --shapes",
        "--all --update-lock --shapes",
        "--all --shard 3/2",
        "--all --shard x",
    ],
)
def test_options_that_do_not_go_together(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", *arguments.split()]) == 2
    assert capsys.readouterr().err.count("\n") == 1


ENTRY = '[[target.decode]]\ndevice = "sim"\nbucket = "batch=1"\nverdict = "ready"\nnodes = {}\n'


@pytest.mark.parametrize("option", ["--locked", "--update-lock"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[target.decode]\n", "line 1"),
        ("", "has no version; remove the file"),
        ("version = 2\n", "another version of graphsafe; remove the file"),
        ("version = 1\n" + ENTRY * 2, "target.decode: several entries for sim, batch=1; keep one"),
        (f"version = 1\n<<<<<<< HEAD\n{ENTRY}=======\n{ENTRY}>>>>>>> other\n", "has a merge conflict; keep one side"),
    ],
    ids=["not TOML", "empty", "other version", "an entry twice", "conflict"],
)
def test_a_lock_that_cannot_be_read_is_refused_before_anything_runs(
    option: str, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("graphsafe.lock").write_text(text)
    assert main(["capture", "--all", option]) == 2  # a child would fail this test, which is not marked to start one
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "graphsafe.lock: " in err and says in err
    (report,) = json.loads(Path("graphsafe-report.json").read_text())["reports"]
    assert (report["target"], report["verdict"]) == ("--all", "inconclusive")
    assert Path("graphsafe.lock").read_text() == text
