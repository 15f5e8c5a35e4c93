"""Which processes graphsafe starts, and that none of them imports what lies in the folder it is started in."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pytest

import graphsafe
from graphsafe.scan.symbols import index_pool

pytestmark = pytest.mark.child

SOURCE = Path(graphsafe.__file__).parent
STARTS = {
    ("calls.py", "_git", "subprocess.Popen"): "git, by its absolute path, with all that could run a program off",
    ("scan.py", "_watch", "subprocess.run"): "graphsafe itself, through own_python",
    ("index_pool.py", "build_indexes", "ProcessPoolExecutor"): "this process again",
    ("index_pool.py", "build_indexes", "multiprocessing.get_context"): "a fork, or a fresh Python in safe_spawning",
    ("reading_pool.py", "_processes", "multiprocessing.get_context"): "a fork",
    ("reading_pool.py", "_processes", "context.Process"): "a fork",
    ("launch.py", "_start", "subprocess.Popen"): "the program that `graphsafe run` was given",
    (
        "signals.py",
        "__init__",
        "subprocess.Popen",
    ): "an isolated Python, which notes signals and imports no site packages",
    ("supervisor.py", "_spawn", "subprocess.Popen"): "a child of capture, which runs the target",
    ("servers.py", "start", "subprocess.Popen"): "the process that children of capture fork from",
    ("server.py", "serve", "os.fork"): "a fork",
    ("server.py", "_keep", "os.fork"): "a child of capture, which runs the target",
    ("preparation.py", "_cuda_started", "os.fork"): "a fork",
    ("descendants.py", "kill_group", "subprocess.run"): "taskkill, on Windows",
}
"""(file, function, what is called): which process that starts. A new one needs an entry, and a test that nothing which
data names can be started."""
_MODULES = ("subprocess", "multiprocessing", "pty", "webbrowser", "asyncio.subprocess")
_FUNCTIONS = (
    "system popen startfile fork forkpty posix_spawn posix_spawnp execl execle execlp execlpe execv execve execvp "
    "execvpe spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"
).split()
_STARTERS = ("ProcessPoolExecutor", "Process", "Pool", "create_subprocess_exec", "create_subprocess_shell")


@lru_cache(maxsize=1)
def starts() -> Sequence[tuple[str, str, str, ast.Call]]:
    return [*_starts()]


def _starts() -> Iterator[tuple[str, str, str, ast.Call]]:
    """Every call in the package that can start a process: file, function, what is called."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in ("os.", *_MODULES, *_STARTERS)):
            continue
        tree = ast.parse(text)
        around: dict[ast.AST, str] = {}
        for function in ast.walk(tree):  # outer functions come first, inner ones overwrite them
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                around.update(dict.fromkeys(ast.walk(function), function.name))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in _MODULES:
                names = {alias.name for alias in node.names}
                assert not names - {"Connection", "wait", "PIPE", "DEVNULL"}, f"{path}:{node.lineno}: import the module"
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                module, _, name = called.rpartition(".")
                # A report has processes and pools of its own.
                is_starter = name in _STARTERS and (bool(module) or name not in ("Process", "Pool"))
                if module in _MODULES or (module == "os" and name in _FUNCTIONS) or is_starter:
                    yield path.name, around.get(node, ""), called, node


def test_every_process_that_is_started_is_known() -> None:
    found = {(file, function, called) for file, function, called, _ in starts()}
    assert found == set(STARTS)


def test_no_process_is_started_by_a_shell_nor_by_the_text_of_a_command() -> None:
    for file, _, called, node in starts():
        assert not any(each.arg == "shell" for each in node.keywords), (file, node.lineno)
        if called.startswith("subprocess."):
            words = node.args[0]
            first = words.elts[0] if isinstance(words, ast.List) else words
            by_name = isinstance(first, ast.Constant) and first.value != "taskkill"
            assert not by_name and not isinstance(words, ast.JoinedStr), (file, node.lineno)


SHADOWED = "click json typing re ast os sqlite3 tomllib subprocess yaml libcst pickle pygls asyncio rich torch"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder whose modules have the names of those that graphsafe imports, and say when they run."""
    for name in SHADOWED.split():
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write('{name} ')\n")
    (tmp_path / "graphsafe.toml").touch()
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE.parent), "PYTHONUNBUFFERED": "1"}


def ran(folder: Path) -> str:
    path = folder / "RAN"
    return path.read_text() if path.exists() else ""


def test_what_lies_in_the_working_directory_is_not_imported(hostile: Path) -> None:
    command = [sys.executable, "-m", "graphsafe"]
    scan = subprocess.run(
        [*command, "scan", ".", "-j", "2"], cwd=hostile, env=environment(), capture_output=True, text=True
    )
    assert (scan.returncode, ran(hostile)) == (0, ""), scan.stderr
    server = subprocess.run([*command, "lsp"], cwd=hostile, env=environment(), input=b"", capture_output=True)
    assert (server.returncode, ran(hostile)) == (0, ""), server.stderr


TARGET = "import torch\ndef build(device):\n    return torch.neg, (torch.ones(2, device=device),)\n"


@pytest.mark.child
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
@pytest.mark.parametrize(
    ("arguments", "printed"),
    [(["scan"], "no hot code found"), (["capture", "steps.py:build", "--device", "sim"], "ready")],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_watching_imports_nothing_of_the_folder(hostile: Path, arguments: list[str], printed: str) -> None:
    (hostile / "torch.py").unlink()  # a target imports what its own folder has, as `python steps.py` would
    (hostile / "steps.py").write_text(TARGET if arguments[0] == "capture" else "")
    code = "import sys; sys.path.pop(0); sys.argv[0] = 'graphsafe'; from graphsafe.cli import run; sys.exit(run())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments, "--watch"],
        cwd=hostile,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        said = ""
        while "waiting for changes" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=60)
        process.stdout.close()
    assert printed in said
    assert ran(hostile) == ""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there it is done in one process")
def test_processes_that_start_afresh_import_nothing_of_the_folder(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and Windows."""
    monkeypatch.chdir(hostile)
    monkeypatch.setattr(index_pool.sys, "platform", "darwin")
    (hostile / "model.py").write_text("import torch\n")
    path = str(hostile / "model.py")
    assert [*index_pool.build_indexes({path: ("model", False)}, 2)] == [path]
    assert ran(hostile) == ""
    assert "PYTHONSAFEPATH" not in os.environ
