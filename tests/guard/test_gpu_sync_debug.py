"""A runner as vLLM writes it, whose import names graphsafe's module in place of vLLM's."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

import graphsafe  # noqa: E402
from graphsafe.capture.device.sim import SimDevice  # noqa: E402
from graphsafe.rulebook.book import load_rulebook  # noqa: E402

RUNNER = """
import torch
from graphsafe.gpu_sync_debug import enable_gpu_sync_check, gpu_sync_allowed, with_gpu_sync_check

class Runner:
    @with_gpu_sync_check
    def execute_model(self, x):
        with gpu_sync_allowed():
            total = x.sum().item()
        for _ in range(2):
            with gpu_sync_allowed(first_only=True):
                most = x.max().item() if x.numel() > 4 else 0
        return self.sample_tokens(x)

    @with_gpu_sync_check
    def sample_tokens(self, x):
        return x.argmax().tolist()
"""


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    if request.param is None:
        monkeypatch.delenv("VLLM_GPU_SYNC_CHECK", raising=False)
    else:
        monkeypatch.setenv("VLLM_GPU_SYNC_CHECK", request.param)
    for name in ("graphsafe.gpu_sync_debug", "runner_of_an_engine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    tmp_path.joinpath("runner_of_an_engine.py").write_text(RUNNER)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("runner_of_an_engine")


@pytest.mark.parametrize("runner", ["error"], indirect=True)
def test_a_checked_call_tells_its_lines_once_warm_up_is_over(runner: ModuleType) -> None:
    with SimDevice(0, load_rulebook().ops).entered():
        few, many = torch.ones(4, device="cuda"), torch.ones(8, device="cuda")
        runner.Runner().execute_model(few)
        runner.enable_gpu_sync_check()
        with pytest.raises(graphsafe.Forbidden) as error:
            runner.Runner().execute_model(few)
        assert [finding.location.function for finding in error.value.findings] == ["Runner.sample_tokens"]
        with pytest.raises(graphsafe.Forbidden) as error:
            runner.Runner().execute_model(many)
        functions = [finding.location.function for finding in error.value.findings]
        assert sorted(map(str, functions)) == ["Runner.execute_model", "Runner.sample_tokens"]


@pytest.mark.parametrize("runner", ["warn"], indirect=True)
def test_it_warns_where_it_is_told_to(runner: ModuleType) -> None:
    with SimDevice(0, load_rulebook().ops).entered():
        runner.enable_gpu_sync_check()
        with pytest.warns(UserWarning, match="argmax"):
            assert runner.Runner().execute_model(torch.ones(4, device="cuda")) == 0


@pytest.mark.parametrize("runner", [None], indirect=True)
def test_it_does_nothing_where_nobody_asks(runner: ModuleType) -> None:
    runner.enable_gpu_sync_check()
    assert runner.Runner().execute_model(torch.ones(4)) == 0
    assert not hasattr(runner.Runner.execute_model, "__wrapped__")


@pytest.mark.parametrize("runner", [None], indirect=True)
def test_its_allowed_blocks_are_allowed_under_forbid_too(runner: ModuleType) -> None:
    with SimDevice(0, load_rulebook().ops).entered():
        x = torch.ones(4, device="cuda")
        with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
            runner.Runner().execute_model(x)
        assert len(error.value.findings) == 1
