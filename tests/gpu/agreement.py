"""The oracle and `graphsafe capture` asked about the same targets, side by side, and where they disagree."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ORACLE = Path(__file__).with_name("oracle.py")
OVERDUE = "not in time"


@dataclass(frozen=True, slots=True)
class Mark:
    """A line to blame, and the codes that say rightly why."""

    path: str
    line: int
    codes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Case:
    """A target, and what is known of it beforehand: nothing, or the verdict and the lines to blame."""

    name: str
    target: str
    expect: str | None = None
    marks: tuple[Mark, ...] = ()
    pure: bool = False
    root: str = ""
    "Lines in files below this folder can be to blame, too, not only those beside the target's file."

    @property
    def file(self) -> str:
        return self.target.rpartition(":")[0]

    @property
    def factory(self) -> str:
        return self.target.rpartition(":")[2]


@dataclass(slots=True)
class Answer:
    """What both said of one case."""

    case: Case
    oracle: dict[str, Any] | None = None
    verdict: str | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    seconds: float | None = None
    said: str = ""

    @property
    def truth(self) -> str | None:
        return self.case.expect or (self.oracle or {}).get("label")

    @property
    def marks(self) -> tuple[Mark, ...]:
        line = (self.oracle or {}).get("line")
        if self.case.marks or not line or self.truth != "not-ready":
            return self.case.marks
        path, _, number = line.rpartition(":")
        found = Path(sysconfig.get_path("purelib"), path)  # a library's file may be named from its site-packages
        return (Mark(str(found.resolve()), int(number), frozenset()),)

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["level"] == "error"]

    @property
    def line_named(self) -> bool:
        return any(on(finding, mark) for finding in self.errors for mark in self.marks)

    @property
    def code_named(self) -> bool:
        return any(
            on(finding, mark) and (not mark.codes or finding["code"] in mark.codes)
            for finding in self.errors
            for mark in self.marks
        )


def on(finding: dict[str, Any], mark: Mark) -> bool:
    return finding["path"] == mark.path and finding["line"] <= mark.line <= finding["end_line"]


def child_environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    return {**os.environ, "PYTHONPATH": path, **quiet}


def run(command: Sequence[str], folder: str, timeout: float) -> tuple[int | None, str]:
    """The exit code, None where it took too long, and all that was printed."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=timeout)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def ask_oracle(group: Sequence[Answer], timeout: float) -> None:
    """About targets of one file; what it has not come to in time has no label."""
    case = group[0].case
    names = ",".join(answer.case.factory for answer in group)
    words = [*(["pure"] if case.pure else []), *([f"root={case.root}"] if case.root else [])]
    said = ""
    if timeout > 5:
        with tempfile.TemporaryDirectory() as folder:
            _, said = run([sys.executable, str(ORACLE), f"{case.file}:{names}", *words], folder, timeout)
    told = [json.loads(line) for line in said.splitlines() if line.startswith('{"target": ')]
    for answer in group:
        answer.oracle = {"label": None, "why": said.strip()[-300:] or OVERDUE}
    for answer, label in zip(group, told, strict=False):
        answer.oracle = label


def groups(answers: Sequence[Answer], size: int) -> list[list[Answer]]:
    """Those that one process may be asked about."""
    alike: dict[tuple[str, bool, str], list[Answer]] = {}
    for answer in answers:
        alike.setdefault((answer.case.file, answer.case.pure, answer.case.root), []).append(answer)
    return [found[start : start + size] for found in alike.values() for start in range(0, len(found), size)]


def ask_graphsafe(answers: Sequence[Answer], device: str, timeout: float, left: float) -> None:
    """All targets in one command, as a project would ask; what it has not come to in time has no verdict."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"[targets.t{n}]\nfactory = {json.dumps(answer.case.target)}\n" for n, answer in enumerate(answers)]
        (folder / "graphsafe.toml").write_text("\n".join(lines), encoding="utf-8")
        command = [sys.executable, "-m", "graphsafe", "capture", "--all", "--device", device]
        _, said = run([*command, "--timeout", str(timeout), "-o", "reports.json"], name, left)
        file = folder / "reports.json"
        told = json.loads(file.read_text(encoding="utf-8"))["reports"] if file.exists() else []
        for answer in answers:
            answer.said, answer.verdict = said[-2000:], OVERDUE
        for answer, report in zip(answers, told, strict=False):
            if not any(limit["kind"] == "interrupted" for limit in report["limits"]):
                take(answer, report, folder)


def take(answer: Answer, report: dict[str, Any], folder: Path) -> None:
    answer.verdict = report["verdict"]
    answer.limits = [f"{limit['kind']}: {limit['what']}: {limit['why']}" for limit in report["limits"]]
    if report["devices"]:
        answer.seconds = report["devices"][0]["probes"]["timing"].get("seconds")
    for finding in report["findings"]:
        place = finding["location"]
        path = (folder / place["path"]).resolve()
        if not path.exists():  # a library's file is named from its site-packages
            path = Path(sysconfig.get_path("purelib"), place["path"])
        answer.findings.append(
            {
                **{key: finding[key] for key in ("code", "level", "message")},
                "path": str(path),
                "line": place["line"],
                "end_line": place["end_line"],
            }
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How many at a time, how long each may take, and when no further one is begun."""

    workers: int = max(2, (os.cpu_count() or 2) * 5 // 8)
    timeout: float = 150.0
    budget: float = 540.0


def ask(
    cases: Iterable[Case],
    device: str,
    pace: Pace,
    *,
    oracle: bool,
    together: int = 1,
    known: Mapping[str, dict[str, Any]] | None = None,
) -> list[Answer]:
    """Both about every case: first the oracle about all of them, so that neither is in the other's way.

    `device` may be empty: only the oracle is asked. `together` targets share its processes. `known` is what it said
    earlier, by the cases' names.
    """
    begun = time.monotonic()
    answers = [Answer(case, (known or {}).get(case.name)) for case in cases]

    def left() -> float:
        return min(pace.timeout, pace.budget - (time.monotonic() - begun))

    with concurrent.futures.ThreadPoolExecutor(pace.workers) as pool:
        if oracle:
            list(pool.map(lambda group: ask_oracle(group, left()), groups(answers, together)))
            print(f"the oracle took {time.monotonic() - begun:.0f} s\n", flush=True)
    if device:
        ask_graphsafe(answers, device, pace.timeout, max(pace.budget - (time.monotonic() - begun), 5))
        print("\n".join(map(row, answers)), flush=True)
    print(f"\n{len(answers)} targets in {time.monotonic() - begun:.0f} s")
    return answers


def row(answer: Answer) -> str:
    where = "" if not answer.marks else "line" if answer.line_named else "other line"
    what = "" if not answer.marks else "code" if answer.code_named else "other code"
    sign = " " if answer.verdict == answer.truth else "!" if answer.verdict == "ready" else "?"
    seconds = "" if answer.seconds is None else f"{answer.seconds:.0f} s"
    return f"{sign} {answer.case.name:34} {answer.truth!s:13} {answer.verdict!s:13} {where:11} {what:11} {seconds}"


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


def summary(answers: Sequence[Answer]) -> str:
    """The figures, and every disagreement with both sides' words."""
    judged = [answer for answer in answers if answer.truth and answer.verdict and answer.verdict != OVERDUE]
    right = [answer for answer in judged if answer.verdict == answer.truth]
    false = [answer for answer in judged if answer.verdict == "ready" != answer.truth]
    unknown = [answer for answer in judged if answer.verdict == "inconclusive" != answer.truth]
    blamed = [answer for answer in judged if answer.marks]
    lines = [
        f"verdict as in truth: {share(len(right), len(judged))}",
        f"false ready: {len(false)}" + "".join(f" {answer.case.name}" for answer in false),
        f"inconclusive where truth is known: {share(len(unknown), len(judged))}",
        f"line to blame named: {share(sum(a.line_named for a in blamed), len(blamed))}",
        f"code and line: {share(sum(a.code_named for a in blamed), len(blamed))}",
        f"without truth or verdict: {len(answers) - len(judged)}"
        + "".join(f" {answer.case.name}" for answer in answers if answer not in judged),
    ]
    for answer in answers:
        doubted = answer.case.expect and answer.oracle and answer.oracle["label"] != answer.case.expect
        agreed = answer.verdict is None or answer.verdict == answer.truth
        named = answer.verdict is None or not answer.marks or answer.code_named
        if agreed and named and not doubted:
            continue
        lines += ["", f"{answer.case.name}: {answer.case.target}"]
        if answer.case.expect:
            lines.append(f"  expected: {answer.case.expect}")
        if answer.oracle:
            told = {key: value for key, value in answer.oracle.items() if key != "target" and value is not None}
            lines.append(f"  the oracle: {told}")
        lines += [f"  to blame: {Path(m.path).name}:{m.line} {' or '.join(sorted(m.codes))}" for m in answer.marks]
        lines.append(f"  graphsafe: {answer.verdict}")
        for finding in answer.errors:
            lines.append(f"    {finding['code']} {Path(finding['path']).name}:{finding['line']} {finding['message']}")
        lines += [f"    {limit}" for limit in answer.limits[:6]]
        if answer.verdict not in ("ready", "not-ready", None):
            lines += [f"    > {line}" for line in answer.said.strip().splitlines()[-4:]]
    return "\n".join(lines)


def write(answers: Sequence[Answer], folder: Path, name: str) -> str:
    """NAME.json and NAME.log in a folder; gives the log's text."""
    folder.mkdir(parents=True, exist_ok=True)
    data = [{**asdict(answer), "truth": answer.truth, "line_named": answer.line_named} for answer in answers]
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1, default=sorted) + "\n", encoding="utf-8")
    text = "\n".join([*map(row, answers), "", summary(answers), ""])
    (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return text


def parser(description: str) -> argparse.ArgumentParser:
    """The options of the benchmarks that ask both."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="cuda", help="cuda, sim, or none: only the oracle")
    made.add_argument("--no-oracle", action="store_true", help="do not ask the oracle")
    made.add_argument("--truth", type=Path, help="what an earlier run of the oracle said: the JSON file that it wrote")
    made.add_argument("--only", default="", help="names, separated by commas")
    made.add_argument("--part", default="1/1", help="2/3: every third target, from the second on")
    made.add_argument("--repeat", type=int, default=1)
    made.add_argument("--workers", type=int, default=Pace().workers)
    made.add_argument("--timeout", type=float, default=Pace().timeout, help="seconds for one target")
    made.add_argument("--budget", type=float, default=Pace().budget, help="seconds after which no target is begun")
    made.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")), help="where NAME.json and .log go")
    return made


def carry_out(cases: Sequence[Case], options: argparse.Namespace, name: str, *, together: int = 1) -> None:
    """Ask as the options say, write NAME.json and NAME.log, and print the figures and disagreements.

    `together` targets of a file share the oracle's processes, where they leave nothing behind in Python modules.
    """
    which, _, parts = options.part.partition("/")
    wanted = set(filter(None, options.only.split(",")))
    chosen = [case for case in cases if not wanted or case.name in wanted][int(which) - 1 :: int(parts)]
    known = {}
    if options.truth:
        told = json.loads(options.truth.read_text(encoding="utf-8"))
        known = {answer["case"]["name"]: {"label": None, **answer["oracle"]} for answer in told}
    device = "" if options.device == "none" else options.device
    pace = Pace(options.workers, options.timeout, options.budget)
    asked = not options.no_oracle and not known
    answers = ask(chosen * options.repeat, device, pace, oracle=asked, together=together, known=known)
    write(answers, options.out, name + (f"-{which}" if int(parts) > 1 else ""))
    print(summary(answers))
