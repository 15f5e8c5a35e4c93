"""A few files given, out of a project: which of the others are read for what leads to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.report.model import Report
from graphsafe.scan.api import scan_paths
from graphsafe.scan.execution import budget as call_budget
from graphsafe.scan.roots import candidate_files, importers

MODEL = """\
import torch
from layers import scaled


class Step(torch.nn.Module):
    def forward(self, x):
        return scaled(x)
"""
LAYERS = """\
from helper import count


def scaled(x):
    return x * count(x)
"""
HELPER = """\
import torch


def count(x):
    return x.sum().item()


@torch.library.custom_op("engine::total", mutates_args=())
def total(x: torch.Tensor) -> torch.Tensor:
    return torch.full((), x.sum().item())
"""
SERVER = """\
import torch
from model import Step


class Server(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = Step()

    def forward(self, x):
        return self.step(x.nonzero())
"""
CALLER = """\
import torch


class Total(torch.nn.Module):
    def forward(self, x):
        return torch.ops.engine.total(x)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    files = {"model": MODEL, "layers": LAYERS, "helper": HELPER, "server": SERVER, "caller": CALLER}
    files |= {f"other{number}": "import torch\n" for number in range(50)}
    for name, content in files.items():
        (tmp_path / f"{name}.py").write_text(content)
    return tmp_path


def scan(project: Path, name: str = "") -> Report:
    return scan_paths([project / name], Config(root=project))


def test_in_a_small_project_a_file_alone_has_the_findings_of_a_whole_scan(project: Path) -> None:
    alone, whole = scan(project, "helper.py"), scan(project)
    assert alone.findings == tuple(f for f in whole.findings if Path(f.location.path).name == "helper.py")
    assert [(f.code, f.location.line) for f in alone.findings] == [("GS101", 5), ("GS101", 10)]
    assert not alone.limits


@pytest.mark.parametrize("small", [importers.SMALL, 0])
def test_modules_that_lead_nowhere_near_a_file_count_for_its_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(importers, "SMALL", small)
    package = tmp_path / "engine"
    package.mkdir()
    for name in ["pyproject.toml", "engine/__init__.py", *(f"engine/other{number}.py" for number in range(20))]:
        (tmp_path / name).write_text("")
    (package / "show.py").write_text(
        "import torch\nfrom engine.draw import draw\ndef show(shown: torch.Tensor):\n    draw(shown)\n"
    )
    (package / "draw.py").write_text("def draw(shown):\n    return 'white' if shown[0, 0] > 3 else 'black'\n")
    (package / "model.py").write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    )
    alone, whole = scan(tmp_path, "engine/draw.py"), scan(tmp_path)
    assert [(f.code, f.region) for f in whole.findings] == [("GS102", "step")]
    assert alone.findings == whole.findings


def test_in_a_large_project_the_nearest_roots_are_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    alone = scan(project, "helper.py")
    assert [(f.code, f.location.line) for f in alone.findings] == [("GS101", 5), ("GS101", 10)]
    chain = [Path(site.path).name for site in alone.findings[0].call_chain]
    assert chain == ["model.py", "layers.py"]
    assert [limit.kind for limit in alone.limits] == ["nearest-roots"]


def test_what_leads_to_a_file_is_read_up_to_so_many_functions(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    monkeypatch.setattr(importers, "MAX_NEAREST", 2)
    enough, less = 6, 3
    monkeypatch.setattr(candidate_files, "MAX_READINGS", enough)
    assert [(f.code, f.location.line) for f in scan(project, "helper.py").findings] == [("GS101", 5), ("GS101", 10)]
    monkeypatch.setattr(candidate_files, "MAX_READINGS", less)
    short = scan(project, "helper.py")
    assert len(short.findings) < 2
    assert [limit.kind for limit in short.limits] == ["nearest-roots", "unread-ways"]
    # Each file has its share.
    both = scan_paths([project / "helper.py", project / "other1.py"], Config(root=project))
    assert [f.code for f in both.findings] == ["GS101", "GS101"]


def test_what_was_not_read_leaves_no_suppression_unused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unused = "import torch  # graphsafe: ignore[GS101] nothing is read here"
    text = HELPER.replace("return x.sum().item()", "return x.sum().item()  # graphsafe: ignore[GS101] read once")
    (project / "helper.py").write_text(text.replace("import torch", unused))
    whole = [(f.code, f.location.line) for f in scan(project, "helper.py").findings if f.suppressed is None]
    assert whole == [("GS901", 1), ("GS101", 10)]
    monkeypatch.setattr(importers, "SMALL", 0)
    monkeypatch.setattr(candidate_files, "MAX_READINGS", 0)
    assert not scan(project, "helper.py").findings


def test_what_is_indexed_counts_as_well_and_a_cache_changes_nothing(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    monkeypatch.setattr(call_budget, "BYTES_PER_READING", 10)
    monkeypatch.setattr(candidate_files, "MAX_READINGS", 10)
    fresh = scan(project, "helper.py")
    assert [limit.kind for limit in fresh.limits] == ["nearest-roots", "unread-ways"]
    monkeypatch.setattr(candidate_files, "MAX_READINGS", 1000)
    assert len(fresh.findings) < len(scan(project, "helper.py").findings)

    monkeypatch.setattr(candidate_files, "MAX_READINGS", 10)
    cache = tmp_path_factory.mktemp("cache")
    scan_paths([project], Config(root=project), cache=cache)
    cached = scan_paths([project / "helper.py"], Config(root=project), cache=cache)
    assert (cached.findings, cached.limits) == (fresh.findings, fresh.limits)


def test_what_stands_above_the_nearest_roots_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    monkeypatch.setattr(importers, "MAX_NEAREST", 2)
    (project / "server.py").write_text(
        "import torch\nfrom model import Step\n\ndef forward(x):\n    this is no Python\n"
    )
    alone = scan(project, "helper.py")
    assert [f.code for f in alone.findings] == ["GS101", "GS101"]
    assert [limit.kind for limit in alone.limits] == ["nearest-roots"]


def test_where_few_roots_are_near_those_further_up_are_read_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    (project / "runner.py").write_text("class Runner:\n    def run(self, x):\n        return x.sum().item()\n")
    (project / "state.py").write_text(
        "from runner import Runner\n\n\nclass State:\n"
        "    def __init__(self):\n        self.runner = Runner()\n\n"
        "    def forward(self, x):\n        raise NotImplementedError\n\n"
        "    def prepare(self, x):\n        return self.runner.run(x)\n"
    )
    (project / "model.py").write_text(
        MODEL.replace("from layers import scaled", "from state import State").replace(
            "    def forward(self, x):\n        return scaled(x)",
            "    def __init__(self):\n        super().__init__()\n        self.state = State()\n\n"
            "    def forward(self, x):\n        return self.state.prepare(x)",
        )
    )
    assert [(f.code, f.location.line) for f in scan(project, "runner.py").findings] == [("GS101", 3)]


def test_files_between_may_hold_what_runs_in_a_step_by_its_form(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    (project / "layers.py").write_text(
        "import torch\nfrom helper import count\n\n\nclass Attention:\n"
        "    def forward_decode(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:\n"
        "        return query @ key * count(query)\n"
    )
    (project / "model.py").write_text(
        "import torch\nfrom layers import Attention\n\n\nclass Step(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x + 1\n"
    )
    assert [(f.code, f.location.line) for f in scan(project, "helper.py").findings] == [("GS101", 5), ("GS101", 10)]


def test_a_way_is_followed_however_many_files_it_leads_through(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    (project / "layers.py").write_text("from step0 import scaled\n")
    for number in range(8):
        below = f"step{number + 1}" if number < 7 else "helper"
        name = "scaled" if number < 7 else "count"
        (project / f"step{number}.py").write_text(
            f"from {below} import {name} as below\n\n\ndef scaled(x):\n    return below(x)\n"
        )
    assert [(f.code, f.location.line) for f in scan(project, "helper.py").findings] == [("GS101", 5), ("GS101", 10)]


def test_a_method_may_be_called_on_a_base_class(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "SMALL", 0)
    (project / "interface.py").write_text("class Kernel:\n    def run(self, x):\n        raise NotImplementedError\n")
    (project / "model.py").write_text(
        MODEL.replace("from layers import scaled", "from interface import Kernel").replace(
            "    def forward(self, x):\n        return scaled(x)",
            "    kernel: Kernel\n\n    def forward(self, x):\n        return self.kernel.run(x)",
        )
    )
    (project / "fast.py").write_text(
        "from interface import Kernel\n\n\nclass Fast(Kernel):\n    def run(self, x):\n        return x.sum().item()\n"
    )
    assert [(f.code, f.location.line) for f in scan(project, "fast.py").findings] == [("GS101", 6)]


def test_files_that_cannot_be_imported_are_named_with_the_missing_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "engine"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "layers.py").write_text("class Base: ...\n")
    for name, module in (("sampler", "layers"), ("draft", "gone"), ("verify", "gone"), ("words", "gone")):
        hot = "" if name == "words" else "import torch\n\nclass Head(torch.nn.Module):\n    def forward(self, x):\n"
        body = hot and "        return x * x.sum().item()\n"
        (package / f"{name}.py").write_text(f"from .{module} import Base\n{hot}{body}")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert [one.location.path for one in report.findings] == ["engine/sampler.py"]
    (limit,) = [one for one in report.limits if one.kind == "missing-import"]
    assert limit.what == "engine.gone"
    assert limit.why.startswith("engine/draft.py and 1 more file cannot be imported without this module")
