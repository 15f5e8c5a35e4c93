"""The user's modules are imported once, wherever that changes nothing for a child, and by each child elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsafe.capture.parent.supervision.servers import Server, SharedServers
from graphsafe.capture.parent.supervision.supervisor import Supervisor
from graphsafe.capture.shared.job import Job

pytestmark = [pytest.mark.child, pytest.mark.skipif(sys.platform != "linux", reason="children fork on Linux only")]

END = """
import torch


def build(device):
    return (lambda x: x * 2), (torch.randn(3, device=device),)
"""
NOT_SHARED = {
    # what the module does when it is imported: why its import is not shared
    "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()": "a thread",
    "import torch\ntorch.manual_seed(5)": "seeds torch",
    "import torch\ntorch.rand(1)": "seeds torch",
    "kept = open(__file__)": "open",
    "import subprocess\nkept = subprocess.Popen(['sleep', '60'])": "a process",
    "import os\nif os.fork() == 0:\n    os._exit(0)": "a process",
    "import torch\nwith torch.cuda.graph(torch.cuda.CUDAGraph()):\n    torch.ones(1, device='cuda')": "a graph",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, torch_server: Server | None) -> Iterator[SharedServers]:
    with SharedServers(str(tmp_path_factory.mktemp("servers")), torch_server) as servers:
        yield servers


@pytest.fixture
def imports(tmp_path: Path) -> Path:
    """The file in which modules note that they were imported."""
    return tmp_path / "imports"


def noted(imports: Path) -> str:
    return f"open({str(imports)!r}, 'a').write(__name__ + '\\n')\n"


def run(supervisor: Supervisor, folder: Path, target: str, *children: str) -> list[str | None]:
    jobs = folder / "jobs"
    jobs.mkdir()
    return [supervisor.run(Job(child, str(jobs), target, "sim:0")).ended.how for child in children]


def test_a_module_is_imported_once_for_all_children(tmp_path: Path, imports: Path, servers: SharedServers) -> None:
    (tmp_path / "steps.py").write_text(noted(imports) + END)
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build", "step", "reference") == ["done"] * 3
        assert supervisor.not_shared is None
    assert imports.read_text().splitlines() == ["steps"]


def test_an_import_that_starts_a_thread_which_bears_a_fork_is_shared(
    tmp_path: Path, imports: Path, servers: SharedServers
) -> None:
    thread = """
import _thread, ctypes, time

def clean_up():
    ctypes.CDLL(None).prctl(15, b"jemalloc_bg_thd", 0, 0, 0)
    ready.release()
    time.sleep(60)

ready = _thread.allocate_lock()
ready.acquire()
_thread.start_new_thread(clean_up, ())
ready.acquire()
"""
    (tmp_path / "steps.py").write_text(noted(imports) + thread + END)
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build", "step") == ["done"] * 2
        assert supervisor.not_shared is None
    assert imports.read_text().splitlines() == ["steps"]


def test_a_file_is_imported_once_for_all_its_targets(tmp_path: Path, imports: Path, servers: SharedServers) -> None:
    (tmp_path / "steps.py").write_text(noted(imports) + END + "\n\nother = build\n")
    for number, factory in enumerate(("build", "other")):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Supervisor(servers) as supervisor:
            target = f"{tmp_path}/steps.py:{factory}"
            assert run(supervisor, folder, target, "build", "step", "reference") == ["done"] * 3
            assert supervisor.not_shared is None
    assert imports.read_text().splitlines() == ["steps"]


@pytest.mark.parametrize(
    "does",
    [
        pytest.param(
            does, marks=pytest.mark.slow if any(one in does for one in ("torch.rand", "fork", "cuda.graph")) else ()
        )
        for does in NOT_SHARED
    ],
)
def test_what_a_fork_would_change_is_not_shared(
    does: str, tmp_path: Path, imports: Path, servers: SharedServers
) -> None:
    (tmp_path / "steps.py").write_text(noted(imports) + does + END)
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build", "step") == ["done"] * 2
        assert NOT_SHARED[does] in str(supervisor.not_shared)
    assert len(imports.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("factory", "times"),
    [
        ("import library.late\n    return", 1),
        pytest.param("'Text.'\n    import library.late\n    return", 1, marks=pytest.mark.slow),
        ("return helper(device)\n\n\ndef helper(device):\n    import library.late\n    return", 1),
        pytest.param("print()\n    import library.late\n    return", 2, marks=pytest.mark.slow),
        ("return helper(str(device))\n\n\ndef helper(device):\n    import library.late\n    return", 2),
    ],
)
def test_libraries_that_the_factory_imports_are_imported_for_all_children(
    factory: str, times: int, tmp_path: Path, imports: Path, servers: SharedServers
) -> None:
    """Those with which it begins are imported before it; those behind its own work once more, while it goes on."""
    library = tmp_path / "site-packages" / "library"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(noted(imports) + "import random\nrandom.random()\n")
    (library / "late.py").write_text(noted(imports))
    (tmp_path / "steps.py").write_text(
        f"import sys\nsys.path.append({str(library.parent)!r})\n" + END.replace("return", factory)
    )
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build", "step", "reference") == ["done"] * 3
        assert supervisor.not_shared is None
    assert imports.read_text().splitlines() == ["library", "library.late"] * times


def test_an_import_of_the_factory_that_cannot_be_shared_leaves_its_file_shared(
    tmp_path: Path, imports: Path, servers: SharedServers
) -> None:
    library = tmp_path / "site-packages" / "threaded.py"
    library.parent.mkdir()
    library.write_text("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n")
    (tmp_path / "steps.py").write_text(
        f"import sys\nsys.path.append({str(library.parent)!r})\n"
        + noted(imports)
        + END.replace("return", "import threaded\n    return")
    )
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build", "step") == ["done"] * 2
        assert "thread" in str(supervisor.not_shared)
    assert imports.read_text().splitlines() == ["steps"]


def test_what_the_factory_does_before_it_imports_counts(tmp_path: Path, imports: Path, servers: SharedServers) -> None:
    library = tmp_path / "site-packages" / "library"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(noted(imports))
    (tmp_path / "steps.py").write_text(
        f"import os, sys\nsys.path.append({str(library.parent)!r})\n"
        + END.replace("    return", "    os.environ['LIBRARY_MODE'] = 'fast'\n    import library\n    return")
    )
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build", "step") == ["done"] * 2
        assert "environment" in str(supervisor.not_shared)
    assert imports.read_text().splitlines() == ["library"] * 3


def test_random_numbers_are_those_of_an_import_in_the_child(
    tmp_path: Path, imports: Path, servers: SharedServers
) -> None:
    """The target draws when it is imported, and again when it is built: the child's numbers are the same either way."""
    (tmp_path / "steps.py").write_text(
        "import random\nimport numpy\nrandom.random()\nnumpy.random.rand()\n"
        + END.replace(
            "    return",
            f"    print(random.random(), numpy.random.rand(), file=open({str(imports)!r}, 'a'))\n    return",
        )
    )
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build") == ["done"]
        assert supervisor.not_shared is None
        supervisor.use_fresh_interpreters()
        (tmp_path / "jobs").rename(tmp_path / "earlier")
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build") == ["done"]
    shared, alone = imports.read_text().splitlines()
    assert shared == alone


def test_a_build_that_fails_is_made_once_more_without_shared_imports(
    tmp_path: Path, imports: Path, servers: SharedServers
) -> None:
    (tmp_path / "steps.py").write_text(
        END.replace("    return", f"    {noted(imports).strip()}\n    return").replace("x * 2", "x.no_such_method()")
    )
    with Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build") == ["target"]
    assert len(imports.read_text().splitlines()) == 2


def test_a_target_that_always_says_that_it_was_forked_is_answered(tmp_path: Path, servers: SharedServers) -> None:
    """What torch says where CUDA was started before a fork: a cleaner start may help, and may not."""
    says = "Cannot re-initialize CUDA in forked subprocess"
    (tmp_path / "steps.py").write_text(END.replace("    return", f"    raise RuntimeError({says!r})\n    return"))
    (tmp_path / "jobs").mkdir()
    with Supervisor(servers) as supervisor:
        child = supervisor.run(Job("build", str(tmp_path / "jobs"), f"{tmp_path}/steps.py:build", "sim:0"))
        assert says in child.ended.why


def test_an_import_that_ends_in_any_way_is_answered(tmp_path: Path, servers: SharedServers) -> None:
    for name, does, says in (
        ("raises", "raise ValueError('no weights')", "ValueError: no weights"),
        ("leaves", "import sys\nsys.exit(4)", "SystemExit: 4"),
    ):
        (tmp_path / f"{name}.py").write_text(does + END)
        with Supervisor(servers) as supervisor:
            (tmp_path / name).mkdir()
            child = supervisor.run(Job("build", str(tmp_path / name), f"{tmp_path}/{name}.py:build", "sim:0"))
            assert says in child.ended.why
    for name, does, ending in (
        ("dies", "import ctypes\nctypes.string_at(0)", "crashed"),
        ("hangs", "import time\ntime.sleep(600)", "timeout"),
    ):
        (tmp_path / f"{name}.py").write_text(does + END)
        with Supervisor(servers) as supervisor:
            supervisor.timeout = 4.0
            (tmp_path / name).mkdir()
            child = supervisor.run(Job("build", str(tmp_path / name), f"{tmp_path}/{name}.py:build", "sim:0"))
            assert child.ended.how == ending and "in phase: import" in child.ended.why


@pytest.mark.parametrize("does", ["", "os.chdir('below')\n"], ids=["stays", "moves"])
def test_children_of_a_kept_server_work_where_their_user_does_or_where_their_module_goes(
    does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch_server: Server
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    source = f"import os\n{does}" + END.replace("    return", "    open('made', 'w').close()\n    return")
    (tmp_path / "steps.py").write_text(source)
    with SharedServers(str(tmp_path), torch_server) as servers, Supervisor(servers) as supervisor:
        assert run(supervisor, tmp_path, f"{tmp_path}/steps.py:build", "build") == ["done"]
    assert Path("below" if does else ".", "made").exists()
