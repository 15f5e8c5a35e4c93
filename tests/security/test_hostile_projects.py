"""Two hundred drawn projects, each with several things that a hostile author could put there.

Whatever a scan is asked to do with them, it ends, starts nothing but git, imports nothing of theirs, and writes nothing
outside of the project. An audit hook of Python's sees every start, import and write.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphsafe import cli
from graphsafe.git import calls as git
from graphsafe.scan.cache.sealed_files import MAGIC

pytestmark = [pytest.mark.child, pytest.mark.skipif(os.name == "nt", reason="needs links, pipes and such names")]

STEP = """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor):
        y = x + torch.tensor(3.0, device=x.device)
        return y * x.sum().item()
"""
BATCHES, BATCH = 10, 20
PATIENCE = 120
"Seconds for one scan, which takes a tenth of one."
Draw = random.Random
Trap = Callable[[Path, Draw], None]


def put(folder: Path, name: str, content: str | bytes) -> None:
    path = folder / name
    if not os.path.lexists(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))


def a_module_that_shadows(folder: Path, draw: Draw) -> None:
    names = "click json typing yaml libcst torch rich sitecustomize conftest setup graphsafe numpy tomllib"
    for name in draw.sample(names.split(), 5):
        put(folder, f"{name}.py", "import os\nos.system('touch RAN')\nopen('RAN', 'w')\n")


def code_that_acts_when_it_is_run(folder: Path, draw: Draw) -> None:
    act = draw.choice(["__import__('os').system('touch RAN')", "open('RAN', 'w').write('x')", "breakpoint()", "1 / 0"])
    put(
        folder,
        "act.py",
        f"{act}\nclass M(type):\n    def __new__(*a): {act}\n\n\n@{act}\n" + STEP.partition("\n\n\n")[2],
    )


def a_pipe(folder: Path, draw: Draw) -> None:
    names = [
        "x.py",
        "step.py",
        ".gitignore",
        "graphsafe.toml",
        "pyproject.toml",
        "graphsafe-baseline.toml",
        "rules.yaml",
    ]
    path = folder / draw.choice(names)
    if not os.path.lexists(path):
        os.mkfifo(path)


def a_link(folder: Path, draw: Draw) -> None:
    name = draw.choice(["link.py", "step.py", "graphsafe-baseline.toml", ".gitignore", "pyproject.toml", "folder", "r"])
    target = draw.choice(
        ["../victim.py", "../absent", "/dev/zero", "/dev/stdin", "/proc/self/mem", ".", "..", name, "/"]
    )
    if not os.path.lexists(folder / name):
        (folder / name).symlink_to(target)


def an_ignore_file(folder: Path, draw: Draw) -> None:
    pattern = draw.choice(["**/a/" * 8, "*a" * 30, "[" * 500, "!", "\\", "a" * 100_000, "\0", "[z-a]", "**" * 50, "("])
    put(folder, ".gitignore", f"{pattern}\n" * draw.choice([1, 1, 300]))
    put(folder, "a/" * 40 + "a.py", STEP)


def a_configuration(folder: Path, draw: Draw) -> None:
    line = draw.choice(
        [
            'rules = ["pack"]',
            'rules = ["../.."]',
            'rules = ["/dev/zero"]',
            'rules = ["/etc/passwd"]',
            'exclude = ["**/a/**/b/**/c/**/d"]',
            'exclude = ["../victim.py"]',
            'hot-paths = ["' + "*a" * 40 + '"]',
            'cold-paths = ["../../*"]',
            '[targets.t]\nfactory = "os:system"',
            "a = " + "[" * 5000,
            "a = " + "9" * 100_000,
            'settings = ["PATH"]',
            "per-file-ignores = {'" + "*a" * 40 + "' = ['GS1']}",
        ]
    )
    put(folder, "graphsafe.toml", line + "\n")


def a_rule_pack(folder: Path, draw: Draw) -> None:
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    text = draw.choice(
        ["!!python/object/apply:os.system ['touch RAN']\n", laughs, "&a [*a]\n", "{" * 3000, "\0", "? " * 900]
    )
    put(folder, "pack/GS999-x.yaml", text)
    put(folder, "pack/libraries.yaml", text)
    put(folder, "graphsafe.toml", 'rules = ["pack"]\n')


def a_baseline(folder: Path, draw: Draw) -> None:
    entry = "[[finding]]\npath = '../victim.py'\ncode = 'GS101'\ntext = 'x'\ncount = 99999999\n"
    text = draw.choice(
        ["version = 1\n" + entry * 50, "version = 9\n", "version = [", "version = 1\n" + "[a]\n" * 9, "\xff"]
    )
    put(folder, "graphsafe-baseline.toml", text)


def a_cache(folder: Path, draw: Draw) -> None:
    folder = folder / ".graphsafe_cache"
    if draw.random() < 0.2 and not os.path.lexists(folder):
        folder.symlink_to("..")
        return
    for kind in ("indexes", "report"):
        for number in range(3):
            content = draw.choice([b"", MAGIC, MAGIC + b"\xff" * 5000, b"text"])
            put(folder, f"{kind}-{number}.cache", content)
    if not os.path.lexists(folder / "indexes-9.cache"):
        os.mkfifo(folder / "indexes-9.cache")


def a_repository(folder: Path, draw: Draw) -> None:
    if os.path.lexists(folder / ".git"):
        return
    run = draw.choice(
        ["core.fsmonitor", "core.sshCommand", "filter.x.clean", "diff.external", "core.hooksPath", "alias.diff"]
    )
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    with open(folder / ".git" / "config", "a") as config:
        section, _, key = run.rpartition(".")
        section, _, sub = section.partition(".")
        config.write(f'[{section}{f" {chr(34)}{sub}{chr(34)}" if sub else ""}]\n\t{key} = "touch RAN #"\n')
    put(folder, ".gitattributes", "* filter=x\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fsmonitor=false", "-c", "filter.x.clean=cat"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=folder, check=True)


def odd_source(folder: Path, draw: Draw) -> None:
    content = draw.choice(
        [
            "x = " + "(" * 3000,
            "# coding: " + draw.choice(["idna", "zlib", "utf-7", "rot13", "undefined"]) + "\n" + STEP,
            "\0" * 500,
            STEP + "# graphsafe: ignore[" + "GS1," * 3000 + "] x\n",
            STEP.replace("x.sum()", "x.sum()" + ".view(-1)" * 900),
            STEP + "class A(B): pass\nclass B(A): pass\nA.forward = Step.forward\n",
            "from odd import *\nfrom .odd import *\nimport odd.odd\n" + STEP,
            STEP.replace("return y", "return self.forward(self.forward(x)) if y else self.forward(x)"),
            STEP.replace("3.0", "9" * 4000),
            STEP.replace("Step", "S\u202etep"),
        ]
    )
    put(folder, draw.choice(["odd.py", "o\x1b[31m\ndd.py", "o%0Add.py", "-rf.py", "--fix.py", "o::dd.py"]), content)


def doubling(folder: Path, draw: Draw) -> None:
    body = draw.choice(
        ["return f{}((x, 1)), f{}((1, x))", "return [f{}([x])] + [f{}((x, x))]", "return f{}(lambda: x), f{}(x)"]
    )
    levels = "".join(f"def f{n}(x):\n    {body.format(n + 1, n + 1)}\n\n\n" for n in range(20))
    put(folder, "doubling.py", levels + "def f20(x): return x\n\n\n" + STEP.replace("y = x", "y = f0(x); y = x"))


TRAPS: list[Trap] = [
    a_module_that_shadows,
    code_that_acts_when_it_is_run,
    a_pipe,
    a_link,
    an_ignore_file,
    a_configuration,
    a_rule_pack,
    a_baseline,
    a_cache,
    a_repository,
    odd_source,
    doubling,
]
MODES = [
    [],
    ["--format", "json"],
    ["--fix", "--unsafe-fixes"],
    ["--diff-fixes"],
    ["--add-ignore", "known"],
    ["--write-baseline"],
    ["--diff", "HEAD"],
    ["--statistics", "--confidence", "possible"],
    ["--show-settings"],
    ["--explain-path", "Step.forward"],
    ["--cache-dir", "kept"],
]


class Watched:
    """What Python's audit hook has seen that a scan must not do."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        self.bad: list[str] = []
        self._is_on = False
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on:
            return
        if event == "subprocess.Popen":
            if arguments[0] != git._program():
                self.bad.append(f"{event} {arguments[:2]}")
        elif event in ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "socket.connect"):
            self.bad.append(f"{event} {arguments}")
        elif event == "open" and isinstance(arguments[0], (str, bytes)):
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                self._check(event, path)
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.symlink"):
            self._check(event, arguments[1] if event in ("os.rename", "os.link", "os.symlink") else arguments[0])

    def _check(self, event: str, path: str | bytes) -> None:
        folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
        real = os.path.join(os.path.realpath(folder), name)
        # A file without a name is opened as its folder.
        if not f"{real}{os.sep}".startswith(self.allowed) and real != os.devnull:
            self.bad.append(f"{event} {real}")

    def run(self, *words: str) -> int:
        self._is_on = True
        try:
            return cli.main(["scan", *words, "-j", "1"])
        finally:
            self._is_on = False


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched._is_on = False


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError("a scan does not end")


@pytest.mark.parametrize(
    "batch", [one if one in (0, 2) else pytest.param(one, marks=pytest.mark.slow) for one in range(BATCHES)]
)
def test_nothing_runs_nothing_is_written_outside_and_everything_ends(
    batch: int, watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    # A fresh checkout has no bytecode yet, and the first import of a module would write it beside the module.
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "cache").mkdir()
    before = signal.signal(signal.SIGALRM, _too_long)
    try:
        for number in range(batch * BATCH, (batch + 1) * BATCH):
            draw = random.Random(number)
            around = tmp_path / f"around{number}"
            project = around / "project"
            project.mkdir(parents=True)
            (around / "victim.py").write_text(STEP, encoding="utf-8")
            traps = draw.sample(TRAPS, draw.randint(1, 4))
            for trap in traps:
                trap(project, draw)
            put(project, "pyproject.toml", "[tool.graphsafe]\n")
            put(project, "step.py", STEP)
            monkeypatch.chdir(project)
            watched.allowed = tuple(f"{folder}{os.sep}" for folder in (project, tmp_path / "cache", tmp_path / "tmp"))
            mode = draw.choice(MODES)
            signal.alarm(PATIENCE)
            code = watched.run(".", *mode)
            signal.alarm(0)
            said = f"project {number}: {[trap.__name__ for trap in traps]} {mode}"
            err = capfd.readouterr().err
            assert code in (0, 1, 2), f"{said}\n{err}"
            assert watched.bad == [], f"{said} {watched.bad[:5]}"
            assert (around / "victim.py").read_text(encoding="utf-8") == STEP, said
            assert {path.name for path in around.iterdir()} == {"project", "victim.py"}, said
            assert not [path for path in project.rglob("RAN")], said
            ours = [
                name for name, module in sys.modules.items() if str(project) in str(getattr(module, "__file__", ""))
            ]
            assert ours == [], said
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
