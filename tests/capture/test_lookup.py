"""What is said of a target without importing it: at once, and only what is certain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.capture.parent.lookup import what_is_missing

from .conftest import Answer

BINDS = [
    "def build(device): ...",
    "async def build(device): ...",
    "class build: ...",
    "build = make()",
    "first, (build, *rest) = many()",
    "build: object = 1",
    "from steps import build",
    "from steps import layer as build",
    "import build.layers",
    "if fast:\n    pass\nelse:\n    def build(device): ...",
    "try:\n    from steps import build\nexcept ImportError:\n    build = None",
    "for build in many(): ...",
    "with opened() as build: ...",
    "make((build := 1))",
    "def make(x=(build := 1)): ...",
    "def make():\n    global build\n    build = 1",
    "match thing():\n    case [1, *build]: ...",
    "from steps import *",
    "def __getattr__(name): ...",
    "globals()['build'] = 1",
    "for name in ('build',):\n    exec(f'{name} = 1')",
    "import sys\nsetattr(sys.modules[__name__], 'build', 1)",
    "import sys\nsys.modules[__name__] = object()",
]


@pytest.mark.parametrize("text", BINDS)
def test_a_module_that_may_have_the_factory_is_left_to_its_import(tmp_path: Path, text: str) -> None:
    path = tmp_path / "steps.py"
    path.write_text(text + "\n")
    assert what_is_missing(f"{path}:build") is None


def test_what_is_certain_is_said_with_near_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "engine"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    (package / "model.py").write_text(
        "class Model:\n    def build_model(self): self.eval()\n\n\ndef build_layer(device): ...\n"
    )
    (tmp_path / "broken.py").write_text("def build(:\n")
    assert what_is_missing("engine/model.py:build_layers") == (
        'engine/model.py has no build_layers (did you mean "build_layer"?)'
    )
    assert what_is_missing("engine.model:build_layers") == (
        'engine.model has no build_layers (did you mean "build_layer"?)'
    )
    assert what_is_missing("engine/modle.py:build_layer") == (
        'no such file: engine/modle.py (did you mean "model.py"?)'
    )
    for other in ("nope.py", "train.py", "m.py"):
        assert what_is_missing(f"engine/{other}:build_layer") == f"no such file: engine/{other}"
    assert what_is_missing("engine/model.py:nosuch") == "engine/model.py has no nosuch (its functions: build_layer)"
    assert "call graphsafe.capture(fn, args)" in str(what_is_missing("explore.ipynb:build"))
    assert what_is_missing("engine.model:build_layer") is None
    assert what_is_missing("engine.other:build_layer") is None
    assert "No module named 'no_such_package'" in str(what_is_missing("no_such_package.model:build"))
    assert "SyntaxError" in str(what_is_missing("broken.py:build"))


def test_a_request_that_cannot_work_is_answered_without_torch(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "model.py").write_text("def build_layer(device): ...\n")
    devices = ("--device", "cuda:0", "--device", "cuda:1")
    env = {"PYTHONPROFILEIMPORTTIME": "1"}
    answer = command("model.py:build_layers", *devices, "--bucket", "batch=1,2", env=env)
    imports = [line for line in answer.err.splitlines() if line.startswith("import time:")]
    assert answer.code == 2 and imports
    assert not [line for line in imports if line.rpartition("|")[2].strip() == "torch"]
    [line] = [line for line in answer.err.splitlines() if line not in imports]
    assert line == ('graphsafe: model.py:build_layers: model.py has no build_layers (did you mean "build_layer"?)')
    assert answer.report is not None and answer.report["verdict"] == "inconclusive"


def test_a_name_that_is_no_target_gets_the_nearest_one_or_the_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("def build_layer(device): ...\n")
    form = "expected FILE.py:FACTORY, package.module:FACTORY, or a target's name"
    configured = ("decode", "prefill")
    assert what_is_missing("decod", configured) == (f'no such target is configured (did you mean "decode"?); {form}')
    assert what_is_missing("decod") == what_is_missing("zzz", configured) == f"no such target is configured; {form}"
    for file in ("model.py", "model.py:"):
        assert what_is_missing(file) == "name the factory too: model.py:FACTORY (its functions: build_layer)"
