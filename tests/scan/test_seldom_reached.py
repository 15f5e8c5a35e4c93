"""Code that no step runs, or that stands around graphs: first steps, schedules, old copies, tests, validation."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.report.model import Finding
from graphsafe.scan.api import scan_paths

OPTIMIZER = """
import torch
from torch.optim import Optimizer

class Own(Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["row"] = torch.zeros(p.shape[:-1]).to(p)
                    self.begin(p)
                p.data.add_(-group["lr"], p.grad)

    def begin(self, p):
        self.state[p]["column"] = torch.zeros(p.shape[1:]).to(p)
"""
LEAVES = """
import torch
from torch.optim import Optimizer

class Own(Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.begin(p)
                p.data.add_(-group["lr"], p.grad)

    def begin(self, p):
        state = self.state[p]
        if len(state) != 0:
            return
        state["row"], _, _ = torch.linalg.svd(p.float())
"""
RECORDS = """
import torch
from torch import nn

class Scales:
    def watch(self, model, batches):
        self.kept = {}

        def keep(module, inputs, output):
            self.kept[module] = output.abs().max().item()

        handles = [each.register_forward_hook(keep) for each in model.modules()]
        for batch in batches:
            model(batch)
        for handle in handles:
            handle.remove()
"""
FAILS = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        loss = x.square().mean()
        if not torch.isfinite(loss):  # this itself waits
            return torch.tensor(1e-10, device=x.device)
        return loss
"""
CALIBRATES = """
import torch

class MaxCalibrator:
    def collect(self, x: torch.Tensor):
        self.most = x.abs().max().cpu()
"""
SCHEDULE = """
from torch.optim.lr_scheduler import _LRScheduler

class Linear(_LRScheduler):
    def step(self, current=None):
        if current is None:
            current = self.counter
            self.counter += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * current
"""
ACTOR = """
import torch
from torch import nn

def act(network: nn.Module, state):
    state = torch.tensor(state, dtype=torch.float32)
    return network(state).detach().cpu().numpy()

def train(env, network, optimizer, loss_of):
    state = env.reset()
    for _ in range(1000):
        state = env.step(act(network, state))
        loss_of(network).backward()
        optimizer.step()
"""
VALIDATION = """
class Trainer:
    def validation_step(self, batch):
        return self.network(batch).detach().cpu()

    def run(self):
        for epoch in range(self.epochs):
            for _ in range(self.iterations):
                self.loss(self.network(next(self.data))).backward()
                self.optimizer.step()
            for _ in range(self.validations):
                self.validation_step(next(self.others))
"""
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return x * x.sum().item()
"""


def found(root: Path, **files: str) -> list[Finding]:
    for name, text in files.items():
        path = root / f"{name.replace('__of__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return [each for each in scan_paths([root], load_config(root)).findings if each.level != "note"]


@pytest.mark.parametrize("source", [OPTIMIZER, LEAVES, RECORDS, CALIBRATES, SCHEDULE, ACTOR, VALIDATION])
def test_no_finding_tells_of_what_no_later_step_waits_for(tmp_path: Path, source: str) -> None:
    assert found(tmp_path, code=source) == []


def test_of_a_branch_for_results_that_are_no_numbers_only_the_test_counts(tmp_path: Path) -> None:
    assert [(each.code, each.location.line) for each in found(tmp_path, code=FAILS)] == [("GS102", 8)]


def test_a_forward_hook_that_stays_runs_in_every_step(tmp_path: Path) -> None:
    stays = RECORDS[: RECORDS.index("        for handle in")]
    assert [each.code for each in found(tmp_path, code=stays)] == ["GS101"]


def test_a_file_that_imports_what_its_package_lacks_is_an_old_copy(tmp_path: Path) -> None:
    files = {"own__of____init__": "", "own__of__layers": "class Layer: pass"}
    old = "from own.old import Layer\n" + MODEL
    assert found(tmp_path, **files, own__of__net=old) == []
    assert len(found(tmp_path, **files, own__of__net=old.replace("own.old", "own.layers"))) == 1


def test_an_export_s_modules_are_no_steps(tmp_path: Path) -> None:
    assert found(tmp_path, own__of____init__="", own__of__export__of____init__="", own__of__export__of__net=MODEL) == []


def test_a_library_does_not_call_the_subclasses_of_tests(tmp_path: Path) -> None:
    base = """
    from torch import nn

    class Press:
        def score(self, x):
            return x

    class Net(nn.Module):
        def forward(self, x, press: Press):
            return press.score(x)
    """
    mock = "from base import Press\n\nclass Mock(Press):\n    def score(self, x):\n        return x.tolist()\n"
    assert found(tmp_path, base=base, tests__of__test_press=mock) == []


def test_the_set_up_of_a_benchmark_is_no_step(tmp_path: Path) -> None:
    timed = "import torch\n\n\ndef inputs(x):\n    return x[x > 0]\n"
    assert len(found(tmp_path / "ops", own__of____init__="", own__of__ops=timed)) == 1
    assert found(tmp_path / "timed", own__of____init__="", own__of__ops_benchmark=timed) == []


def test_metrics_are_called_around_graphs(tmp_path: Path) -> None:
    metric = "class Accuracy:\n    def __call__(self, y, target):\n        return y.eq(target).sum().item()\n"
    for measuring in (f"import torch\n\n{metric}", MODEL):
        told = found(tmp_path, own__of____init__="", own__of__metrics=measuring)
        assert [(each.region, each.level) for each in told] == [("step", "warning")]

    entry = "import torch\n\n@METRICS.register()\ndef psnr(x: torch.Tensor):\n    return x.mean().item()\n"
    for folder, region in (("metrics", "step"), ("losses", "captured")):
        files = {"own__of____init__": "", f"own__of__{folder}__of____init__": "", f"own__of__{folder}__of__psnr": entry}
        assert [each.region for each in found(tmp_path / folder, **files)] == [region]


def test_seldom_code_leads_to_seldom_code_in_all_subclasses_of_an_annotated_class(tmp_path: Path) -> None:
    many = "".join(
        f"\n\nclass Model{number}(Model):\n    def images(self, x: torch.Tensor):\n        return x.max().item()\n"
        for number in range(9)
    )
    model = "import torch\n\n\nclass Model:\n    def images(self, x: torch.Tensor):\n        return x\n" + many
    trainer = """
    from model import Model

    class Trainer:
        model: Model

        def show(self, batch):
            return self.model.images(batch)

        def train(self, batches):
            for step, batch in enumerate(batches):
                self.network(batch).backward()
                self.optimizer.step()
                if step % self.every == 0:
                    self.show(batch)
    """
    assert found(tmp_path / "seldom", model=model, trainer=trainer) == []
    always = trainer.replace("if step % self.every == 0", "with self.timer")
    assert len(found(tmp_path / "always", model=model, trainer=always)) == 9


@pytest.mark.parametrize(
    ("test", "is_seldom"),
    [
        ("if step % every != 0 or epoch is not None:\n    return", True),
        ("if step == 0:\n    if not self.first:\n        return\nelse:\n    if step % every:\n        return", True),
        ("if step == 0:\n    if not self.first:\n        return\nelse:\n    if not self.first:\n        return", False),
        ("if step % every == 0:\n    return", False),
        ("if step % every != 0 and self.early:\n    return", False),
        ("if self.should_log:\n    self.log(step)\nelse:\n    return", True),
    ],
)
def test_few_steps_reach_the_code_after_a_return_at_intervals(tmp_path: Path, test: str, is_seldom: bool) -> None:
    head = """
    import torch

    class Trainer:
        def train(self, batches):
            for step, batch in enumerate(batches):
                self.network(batch).backward()
                self.optimizer.step()
                self.show(step, batch)

        def show(self, step, batch: torch.Tensor, every=500, epoch=None):
    """
    shown = "\n" + textwrap.indent(f"{test}\nreturn batch.argmax().item()", " " * 12)
    assert (found(tmp_path, code=head.rstrip() + shown) == []) == is_seldom


def test_few_steps_draw_pictures(tmp_path: Path) -> None:
    trainer = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            return self.visualize(x)

        def visualize(self, x):
            return x[x > 0]
    """
    assert found(tmp_path, code=trainer) == []
    assert [each.code for each in found(tmp_path, code=trainer.replace("visualize", "select"))] == ["GS202"]


RECORDS_AT_STEPS = """
import torch
from torch import nn

class Trainer:
    def train_step(self, batch):
        handles = self.watch()
        self.network(batch).sum().backward()
        for handle in handles:
            handle.remove()

    def watch(self):
        if self.step not in self.config.save_steps:
            return []

        def keep(module, inputs, output: torch.Tensor):
            self.kept[module] = output.abs().max().item()

        return [each.register_forward_hook(keep) for each in self.network.modules()]
"""


def test_a_hook_that_few_steps_register_and_remove_runs_in_few_steps(tmp_path: Path) -> None:
    assert found(tmp_path, code=RECORDS_AT_STEPS) == []
    always = RECORDS_AT_STEPS.replace("not in self.config.save_steps", "in self.config.skipped")
    assert [each.code for each in found(tmp_path, code=always)] == ["GS101"]


def test_hooks_of_tests_run_in_no_step(tmp_path: Path) -> None:
    stays = RECORDS[: RECORDS.index("        for handle in")]
    assert found(tmp_path, scripts__of__numerical_tests_own=stays) == []
    assert len(found(tmp_path, scripts__of__numerics_own=stays)) == 1


def test_modules_that_evaluate_another_module_run_beside_steps(tmp_path: Path) -> None:
    assert found(tmp_path / "beside", own__of____init__="", own__of__evaluation_predictor=MODEL) == []
    assert len(found(tmp_path / "model", own__of____init__="", own__of__predictor=MODEL)) == 1


def test_hooks_of_a_debugger_run_in_no_step(tmp_path: Path) -> None:
    debugger = """
    import torch

    class DebugOverflow:
        def __init__(self, model):
            for each in model.modules():
                each.register_forward_hook(self.hook)

        def hook(self, module, inputs, output: torch.Tensor):
            if output.isnan().any():
                raise ValueError(module)
    """
    assert found(tmp_path, code=debugger) == []
    assert [each.code for each in found(tmp_path, code=debugger.replace("DebugOverflow", "StopAtNan"))] == ["GS102"]


def test_callables_in_the_folder_of_an_evaluation_run_beside_steps(tmp_path: Path) -> None:
    collector = """
    import torch

    class Divergence:
        def __call__(self, logits: torch.Tensor, reference: torch.Tensor):
            self.found.append((logits - reference).abs().sum().item())
    """
    assert found(tmp_path, eval__of__measure=collector) == []
    assert [each.code for each in found(tmp_path, runtime__of__measure=collector)] == ["GS101"]
    derived = collector.replace("class Divergence:", "class Divergence(LogitsProcessor):")
    derived = derived.replace("import torch\n", "import torch\n    from transformers import LogitsProcessor\n")
    assert [each.code for each in found(tmp_path / "derived", eval__of__measure=derived)] == ["GS101"]


@pytest.mark.parametrize(
    ("test", "result", "codes"),
    [
        ("not torch.any(losses)", "zero", ["GS102"]),
        ("losses.sum() == 0", "zero", ["GS102"]),
        ("losses.numel() == 0", "zero", []),
        ("torch.any(losses)", "zero", ["GS102", "GS301"]),
        ("losses.numel() == 8", "zero", ["GS301"]),
        ("not torch.any(losses)", "self.other(zero)", ["GS102", "GS301"]),
    ],
)
def test_a_branch_that_returns_because_nothing_is_left(
    tmp_path: Path, test: str, result: str, codes: list[str]
) -> None:
    result = result.replace("zero", "torch.tensor(0.0, device=losses.device)")
    loss = f"""
    import torch
    from torch import nn

    class Loss(nn.Module):
        def forward(self, losses: torch.Tensor):
            if {test}:
                return {result}
            return losses.mean()
    """
    assert sorted(each.code for each in found(tmp_path, code=loss)) == codes
