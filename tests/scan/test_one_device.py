"""Captures without a stream in programs of several files: only some of the programs use more than one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

RUNNER = """\
import torch


class Runner:
    def __init__(self, model, x):
        self.x = x
        model(x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = model(x)
"""
MAIN = """\
import torch
from {runner} import Runner


def main():
    device = {device}
    model = torch.nn.Linear(4, 4).to(device)
    Runner(model, torch.ones(4, device=device)).graph.replay()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("folder", "script", "device", "found"),
    [
        ("", "main.py", 'torch.device("cuda")', []),
        ("", "main.py", 'torch.device("cuda:1")', ["GS601"]),
        ("", "main.py", "torch.device(sys.argv[1])", ["GS601"]),
        ("", "tools/main.py", 'torch.device("cuda")', ["GS601"]),  # another program
        ("engine/", "main.py", 'torch.device("cuda")', []),
        ("engine/", "main.py", 'parser.add_argument("--device", default="cuda")', ["GS601"]),
    ],
)
def test_a_program_of_several_files(tmp_path: Path, folder: str, script: str, device: str, found: list[str]) -> None:
    main = MAIN.format(runner=f"{folder.replace('/', '.')}runner", device=device)
    assert scan(tmp_path, {f"{folder}runner.py": RUNNER, script: main}, folder) == found


def test_the_users_of_a_library_choose_the_device(tmp_path: Path) -> None:
    texts = {"engine/runner.py": RUNNER, "engine/shapes.py": 'import torch\n\nX = torch.ones(4, device="cuda")\n'}
    assert scan(tmp_path, texts, "engine/") == ["GS601"]


def test_a_package_with_its_own_script(tmp_path: Path) -> None:
    main = MAIN.format(runner="engine.runner", device='torch.device("cuda")')
    assert scan(tmp_path, {"engine/runner.py": RUNNER, "engine/run.py": main}, "engine/") == []


def scan(root: Path, texts: dict[str, str], package: str) -> list[str]:
    for name, text in {**texts, **({f"{package}__init__.py": ""} if package else {})}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return [one.code for one in scan_paths([root], Config(root=root)).findings if one.code == "GS601"]
