"""Steps and factories that are there as objects: sent to processes of their own, with their tensors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cloudpickle")

import graphsafe  # noqa: E402
from graphsafe.capture.device.sim import SimDevice  # noqa: E402
from graphsafe.report.forms import render  # noqa: E402
from graphsafe.rulebook.book import load_rulebook  # noqa: E402

pytestmark = pytest.mark.child

CELL = """import torch, graphsafe
model = torch.nn.Linear(4, 4)

def step(x):
    y = model(x)
    if y.sum() > 0:
        y = y + 1
    return y
"""
# From 3.1.3 on cloudpickle takes the file's name off every function; any version does so here.
NOTEBOOK = f"""
import cloudpickle, json, linecache, sys, types
plain = cloudpickle.Pickler.dispatch_table[types.CodeType]
cloudpickle.Pickler.dispatch_table[types.CodeType] = lambda code: plain(code.replace(co_filename="<dynamic-code>"))
if __name__ == "__main__":
    cell, name = {CELL!r}, "/tmp/ipykernel_{{}}/42.py".format("of_no_process")
    linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
    exec(compile(cell, name, "exec"), globals())
    report = graphsafe.capture(step, (torch.ones(2, 4),), device="sim")
    from graphsafe.report.forms import render
    assert str(report) == render(report, "terminal")
    print(json.dumps([report.target, report.verdict, str(report), report._repr_html_()]))
"""


@pytest.mark.slow
def test_a_function_of_a_notebooks_cell(tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    ran = subprocess.run(
        [sys.executable, "notebook.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stderr
    target, verdict, text, page = json.loads(ran.stdout.splitlines()[-1])
    assert (target.rpartition(":")[2], verdict) == ("step", "not-ready")
    assert "GS102" in text and "6 |     if y.sum() &gt; 0:" not in text
    assert "6 |     if y.sum() > 0:" in text
    assert "were moved to the device" in text
    assert page.startswith("<iframe srcdoc=") and "GS102" in page
    assert not list(tmp_path.glob("*.json"))


def make_step(scale: float) -> Any:
    cache = torch.zeros(4, 4)
    row = cache[1]
    linear = torch.nn.Linear(4, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        row.copy_(linear(x).sum(0) * scale)
        return cache.sum(1)  # the row is seen here only if it is still a view of the cache

    return step


@pytest.mark.slow
def test_a_closure_keeps_its_views_and_a_test_finds_it_ready() -> None:
    report = graphsafe.assert_ready(make_step(2.0), (torch.rand(2, 4),), device="sim:1")
    assert str(report.target).endswith("test_given.py:make_step.step")
    assert [device.device for device in report.devices or ()] == ["sim:1"]


class Reading(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x[: int(x.max().item()) * 0 + n] + n


@pytest.mark.slow
def test_where_this_process_plays_a_device_its_tensors_say_which() -> None:
    with SimDevice(1, load_rulebook().ops).entered():
        x = torch.ones(4, device="cuda:1")
        offsets = torch.arange(4)
        module = Reading()
        with graphsafe.forbid(), pytest.raises(graphsafe.NotReady) as error:
            graphsafe.assert_ready(module, (x,), {"n": 2})
        assert x.device.type == "cuda" and offsets.device.type == "cpu"
    report = error.value.report
    assert [device.device for device in report.devices or ()] == ["sim:1"]
    assert "moved" not in [limit.kind for limit in report.limits]
    text = str(error.value)
    assert text.startswith("Reading is not-ready\n")
    assert text.index("GS101") < text.index("return x[: int(x.max().item())") < text.index("Predicted on")


def build(device: torch.device, batch: int = 2) -> Any:
    return torch.nn.Linear(4, 4).to(device), (torch.ones(batch, 4, device=device),)


def test_a_factory_with_buckets() -> None:
    report = graphsafe.assert_ready(build, device="sim", buckets={"batch": [1, 2]})
    assert [bucket.axes for device in report.devices or () for bucket in device.buckets] == [{"batch": 1}, {"batch": 2}]


def build_wide(device: torch.device, width: int) -> Any:
    return build(device, width)


def test_a_factory_that_cannot_be_called_shows_no_temporary_file() -> None:
    report = graphsafe.capture(build_wide, device="sim")
    (limit,) = [limit for limit in report.limits if limit.kind == "bad-request"]
    assert "missing 1 required positional argument: 'width'" in limit.why
    assert "graphsafe-given" not in str(report) + render(report, "json")


def test_what_cannot_be_sent_is_said_in_one_line() -> None:
    import threading

    lock = threading.Lock()
    with pytest.raises(graphsafe.RequestError, match=r"cannot be sent to another process: .*; capture a factory"):
        graphsafe.capture(lambda x: (lock, x), (torch.ones(2),))
    with pytest.raises(graphsafe.RequestError, match=r"\(x,\) for one; got a Tensor"):
        graphsafe.capture(torch.nn.Linear(2, 2), torch.ones(2, 2))  # type: ignore[arg-type]
    with pytest.raises(graphsafe.RequestError, match="not a int"):
        graphsafe.capture(3)  # type: ignore[arg-type]
    with pytest.raises(graphsafe.RequestError, match="give the factory"):
        graphsafe.capture(graphsafe.Step(torch.nn.ReLU(), (torch.ones(2),)))  # type: ignore[arg-type]
    with pytest.raises(graphsafe.RequestError, match="go with a function or a module"):
        graphsafe.capture("model.py:build", (torch.ones(2),))
