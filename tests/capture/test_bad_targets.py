"""Whatever a target does is an answer: one clear line, the right exit code, a report, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe import cli
from graphsafe.capture.request import BAD_REQUEST

from .conftest import DEVICES, GPUS, TARGETS, Answer, Prove, processes_with

pytestmark = pytest.mark.child

BAD = TARGETS / "bad.py"
WRONG = {
    # target: what the one line on stderr says
    f"{TARGETS / 'nowhere.py'}:build": "no such file",
    f"{BAD}:nowhere": "has no nowhere",
    "no_such_package.model:build": "No module named 'no_such_package'",
    f"{TARGETS / 'missing_package.py'}:build": "No module named 'not_there_at_all'",
    f"{BAD}:raises": "ValueError: no weights here",
    f"{BAD}:nonsense": "the factory returned an int",
    f"{BAD}:NUMBER": "NUMBER is an int, not a function",
    f"{BAD}:without_group": "--nproc 2 runs the target in two ranks of a group",
    f"{BAD}:second_group": "ask `torch.distributed.is_initialized()` first",
    f"{BAD}:nothing": "the factory returned None",
    f"{BAD}:exits": "SystemExit: 5",
    f"{BAD}:step_raises": "the step failed: KeyError: 'boom'",
    f"{BAD}:step_segfaults": "killed by SIGSEGV",
    f"{BAD}:step_exits": "the process exited with status 0, as after os._exit",
    f"{BAD}:out_of_memory": "the step failed: ",
}


@pytest.mark.parametrize("device", DEVICES)
def test_a_wrong_target_is_told_in_one_line(device: str, prove: Prove) -> None:
    reports = prove(list(WRONG), device)
    for (target, says), report in zip(WRONG.items(), reports, strict=True):
        assert report["verdict"] == "inconclusive"
        [limit] = [limit for limit in report["limits"] if limit["kind"] == BAD_REQUEST]
        assert limit["what"] == target
        assert says in limit["why"] and "\n" not in limit["why"]
        assert report["findings"] == []


@pytest.mark.parametrize(
    "target",
    [
        f"{BAD}:raises",
        f"{BAD}:step_raises",
        f"{TARGETS / 'missing_package.py'}:build",
        f"{TARGETS / 'nowhere.py'}:build",
    ],
)
def test_a_wrong_request_is_one_line_and_exit_2(target: str, command: Callable[..., Answer]) -> None:
    answer = command(target, "--device", "sim")
    assert answer.code == 2
    [line] = answer.err.strip().splitlines()
    assert line.startswith(f"graphsafe: {target}: ") and WRONG[target] in line
    assert "".join(answer.out.split()).count("".join(WRONG[target].split())) == 1  # the line may be broken
    assert answer.report is not None and answer.report["verdict"] == "inconclusive"


REFUSED = [
    ["--device", "gpu"],
    ["--device"],
    ["--bucket", "batch"],
    ["--replays", "0"],
    ["--nproc", "1"],
    ["--format", "x"],
    ["--devise", "sim"],
    ["--plan", "--shapes"],
    ["--emit", "plan.py", "--shapes"],
    ["--shard", "3/2"],
    ["--sample", "2"],
    ["--all"],
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_refused_request_replaces_an_older_report(
    words: list[str], tmp_path: Path, command: Callable[..., Answer]
) -> None:
    """Else the next step of a CI job takes the older one, which may say `ready`, for this one's."""
    older = tmp_path / "graphsafe-report.json"
    older.write_text("an older report", encoding="utf-8")
    is_list = "--all" in words
    code = cli.main(["capture", "step.py:build", "-o", str(tmp_path / "own.json"), *words])
    assert code == 2 and older.read_text(encoding="utf-8") == "an older report"
    written = json.loads((tmp_path / "own.json").read_text(encoding="utf-8"))
    older.unlink()
    answer = command("step.py:build", *words)
    assert answer.code == 2 and len(answer.err.strip().splitlines()) == 1
    for found in (written, json.loads(older.read_text(encoding="utf-8"))):
        (report,) = found["reports"] if is_list else [found]
        assert report["verdict"] == "inconclusive" and report["target"] == ("--all" if is_list else "step.py:build")
        assert [limit["kind"] for limit in report["limits"]] == [BAD_REQUEST]


@pytest.mark.parametrize("words", [["--device", "sim"], ["--devise"], []], ids=" ".join)
def test_a_request_without_a_target_also_leaves_a_report(
    words: list[str], tmp_path: Path, command: Callable[..., Answer]
) -> None:
    (tmp_path / "graphsafe-report.json").write_text("an older report", encoding="utf-8")
    answer = command(*words)
    assert answer.code == 2 and len(answer.err.strip().splitlines()) == 1
    assert answer.report is not None
    assert (answer.report["verdict"], answer.report["target"]) == ("inconclusive", "no target")
    assert [limit["kind"] for limit in answer.report["limits"]] == [BAD_REQUEST]


def test_an_axis_that_the_factory_lacks_is_told_once(command: Callable[..., Answer]) -> None:
    target = TARGETS / "events.py"
    answer = command(f"{target}:pages", "--device", "sim", "--bucket", "nope=1,2")
    assert answer.code == 2
    [line] = answer.err.strip().splitlines()
    assert line.endswith("bucket axis nope: the factory has no parameter of this name")


@pytest.mark.slow
def test_a_death_in_a_capture_is_named_at_its_line(command: Callable[..., Answer]) -> None:
    answer = command(f"{BAD}:dies_in_capture", "--device", "sim")
    assert answer.report is not None and answer.report["verdict"] == "not-ready"
    [finding] = answer.report["findings"]
    line = next(at for at, text in enumerate(BAD.read_text().splitlines(), start=1) if "SIGSEGV" in text)
    assert (finding["code"], finding["location"]["line"]) == ("GS607", line)


def test_a_death_is_named_in_a_file_of_any_name(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "schlü\u0142 \U0001f511").mkdir()
    file = tmp_path / "schlü\u0142 \U0001f511" / "mö.py"
    file.write_text(BAD.read_text(), encoding="utf-8")
    answer = command(f"{file}:dies_in_capture", "--device", "sim")
    assert answer.report is not None
    [finding] = answer.report["findings"]
    assert finding["location"]["path"].endswith("schlü\u0142 \U0001f511/mö.py") and finding["location"]["column"] > 1


def test_an_error_shows_the_calls_that_led_to_it(command: Callable[..., Answer]) -> None:
    answer = command(f"{BAD}:raises_deep", "--device", "sim")
    calls = [line.strip() for line in answer.out.splitlines() if line.strip().startswith("at ")]
    assert [call.rpartition(" in ")[2] for call in calls] == ["raises_deep", "raises_deep.outer", "raises_deep.inner"]
    assert len(answer.err.splitlines()) == 1 and "KeyError: 'missing'" in answer.err


@pytest.mark.slow
def test_a_target_that_patches_python_is_answered_like_any_other(command: Callable[..., Answer]) -> None:
    answer = command(f"{BAD}:patches_python", "--device", "sim")
    assert answer.code == 0, answer.out


@pytest.mark.slow
def test_a_target_that_removes_the_working_directory_has_its_report(
    tmp_path: Path, command: Callable[..., Answer]
) -> None:
    answer = command(f"{BAD}:removes_its_folder", "--device", "sim")
    assert answer.code in (0, 2) and len(answer.err.splitlines()) <= 1
    assert answer.report is not None


def test_a_fault_of_graphsafe_in_a_child_is_a_limit_and_no_verdict(command: Callable[..., Answer]) -> None:
    answer = command(f"{BAD}:breaks_graphsafe", "--device", "sim")
    assert answer.code == 3
    [line] = answer.err.splitlines()
    assert "build on sim:0: graphsafe failed: TypeError" in line and "please report" in line
    assert answer.report is not None and answer.report["verdict"] == "inconclusive"
    assert "internal" in [limit["kind"] for limit in answer.report["limits"]]


@pytest.mark.slow
def test_a_fault_of_graphsafe_elsewhere_exits_with_3_after_all_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from graphsafe.capture.parent import device_proof
    from graphsafe.cli import main

    def broken(*_: object, **__: object) -> None:
        raise IndexError("out of range")

    (tmp_path / "graphsafe.toml").write_text(
        f'[targets.first]\nfactory = "{TARGETS / "forms.py"}:with_args"\ndevice = "sim"\n'
        f'[targets.second]\nfactory = "{BAD}:nowhere"\ndevice = "sim"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(device_proof, "findings_of", broken)
    assert main(["capture", "--all"]) == 3
    assert "IndexError: out of range" in capsys.readouterr().err
    first, second = json.loads((tmp_path / "graphsafe-report.json").read_text())["reports"]
    assert (first["verdict"], second["verdict"]) == ("inconclusive", "inconclusive")
    assert [limit["kind"] for limit in second["limits"]] == [BAD_REQUEST]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process")
def test_a_full_disk_is_one_line(command: Callable[..., Answer]) -> None:
    import resource

    answer = command(
        f"{BAD}:raises",
        "--device",
        "sim",
        env={"PYTHONDONTWRITEBYTECODE": "1"},  # Python would leave modules that are cut off at the limit
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY)),
    )
    assert answer.code == 2
    assert answer.err.splitlines()[-1].endswith("graphsafe-report.json: File too large")
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (("-o", "r.sarif"), '{\n  "$schema"'),
        (("-o", "r.html"), "<!DOCTYPE html>"),
        (("-o", "r.xml"), "<?xml"),
        (("-o", "r.report"), '{\n  "schema": "graphsafe/report/1"'),
        (("-o", "r.txt", "--format", "concise"), f"{BAD}:nowhere: inconclusive"),
    ],
)
def test_the_file_has_the_form_that_was_asked_for(
    arguments: tuple[str, ...], begins: str, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    assert command(f"{BAD}:nowhere", *arguments).code == 2
    assert (tmp_path / arguments[1]).read_text().lower().startswith(begins.lower())
    assert not (tmp_path / "graphsafe-report.json").exists()


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_step_prints_stays_out_of_the_report(device: str, command: Callable[..., Answer]) -> None:
    answer = command(f"{BAD}:prints", "--device", device, "--format", "json")
    assert answer.code == 0
    assert answer.report is not None and answer.report["verdict"] == "ready"
    assert answer.out.startswith("{") and "xxx" not in answer.out and answer.err == ""


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_that_hangs_is_stopped(device: str, prove: Prove) -> None:
    [report] = prove([f"{BAD}:step_hangs"], device, timeout=8.0 if device == "sim:0" else 25.0)
    assert report["verdict"] == "inconclusive"
    assert any("s (see --timeout), in phase: " in limit["why"] for limit in report["limits"])
    assert not any(limit["kind"] == BAD_REQUEST for limit in report["limits"])


@pytest.mark.parametrize("device", DEVICES)
def test_a_process_that_dies_in_the_capture_is_not_ready(device: str, prove: Prove) -> None:
    died, wrote = prove([f"{BAD}:capture_exits", f"{BAD}:writes_json"], device)
    assert died["verdict"] == "not-ready"
    assert died["devices"][0]["probes"]["capture"]["status"] == "crashed"
    assert wrote["verdict"] == "ready"


@pytest.mark.parametrize(
    "asked", ["cuda:9", *([] if GPUS else [pytest.param(one, marks=pytest.mark.slow) for one in ("cuda", "all")])]
)
def test_a_device_that_is_absent_is_never_simulated(asked: str, command: Callable[..., Answer]) -> None:
    answer = command(f"{TARGETS / 'forms.py'}:with_args", "--device", asked)
    assert answer.code == 2
    assert f"--device {asked}: this machine has" in answer.err
    assert answer.report is not None and answer.report["devices"] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="process groups")
def test_what_a_target_leaves_running_is_ended(command: Callable[..., Answer]) -> None:
    answer = command(f"{BAD}:leaves_a_child", "--device", "sim")
    assert answer.code == 2
    group = int(answer.err.split("in group ")[1].split()[0])
    assert not _alive_in(group)


@pytest.mark.skipif(sys.platform != "linux", reason="sessions and /proc")
def test_no_process_and_no_folder_is_left(tmp_path: Path, command: Callable[..., Answer]) -> None:
    factories = ("leaves_daemons", "step_segfaults", "leaves_a_child")
    (tmp_path / "graphsafe.toml").write_text(
        "".join(f'[targets.{name}]\nfactory = "{BAD}:{name}"\ndevice = "sim"\n' for name in factories)
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    answer = command("--all", env={"TMPDIR": str(temporary), "GRAPHSAFE_TEST": str(tmp_path)})
    assert answer.report is not None and len(answer.report["reports"]) == len(factories)
    assert not processes_with(f"GRAPHSAFE_TEST={tmp_path}")
    # torch itself makes the folder of its compiler's cache.
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("torchinductor")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="process groups")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_ends_and_leaves_its_report_only(
    device: str, number: signal.Signals, tmp_path: Path
) -> None:
    process = _stepping_for_ever(tmp_path, device)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.strip() == "graphsafe: interrupted"
    report = json.loads((tmp_path / "graphsafe-report.json").read_text())
    assert report["verdict"] == "inconclusive"
    assert "interrupted" in [limit["kind"] for limit in report["limits"]]
    assert [path.name for path in tmp_path.iterdir()] == ["graphsafe-report.json"]
    assert not processes_with(f"GRAPHSAFE_TEST={tmp_path}")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="process groups")
def test_a_parent_that_is_killed_takes_its_children_along(tmp_path: Path) -> None:
    process = _stepping_for_ever(tmp_path, "sim:0")
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while processes_with(f"GRAPHSAFE_TEST={tmp_path}") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not processes_with(f"GRAPHSAFE_TEST={tmp_path}")
    assert list(tmp_path.iterdir()) == []


def _interruptible() -> None:
    """Whatever runs the tests in the background may have them ignore Ctrl-C, which their children would inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stepping_for_ever(folder: Path, device: str) -> subprocess.Popen[str]:
    """A capture of a step that hangs, once the step is under way."""
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-m", "graphsafe", "capture", f"{BAD}:step_hangs", "--device", device],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "GRAPHSAFE_TEST": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_interruptible,
    )
    deadline = time.monotonic() + 120
    while not _a_child_runs(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    return process


def _a_child_runs(folder: Path) -> bool:
    """Whether a child that steps is under way: one beside the parent and the server."""
    return len(processes_with(f"GRAPHSAFE_TEST={folder}")) >= 3


def _alive_in(group: int) -> list[int]:
    """Processes of a group that still run: a killed orphan stays on as a zombie until init takes note of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, its_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(its_group) == group and state not in ("Z", "X"):
                found.append(int(entry.name))
    return found
