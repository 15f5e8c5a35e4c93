"""Hot code where no known step begins: each form by which a function is taken to run in a step, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

OPTIMIZER = """\
import torch


class Descent(torch.optim.Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.move(p, p.grad)

    def move(self, p, grad):
        raise NotImplementedError


class Limited(Descent):
    def move(self, p, grad):
        if torch.isfinite(grad).all():
            p.sub_(grad)
"""
WRAPPER = """\
import random


class Restart:
    def __init__(self, inner):
        self.inner = inner

    def step(self):
        for group in self.inner.param_groups:
            for p in group["params"]:
                p.mul_(random.random())
"""
SAMPLER = """\
import torch


class Euler:
    def limited(self, sample):
        return sample / sample.abs().max().item()

    def step(self, noise, sample):
        return self.limited(sample)


class Cold:
    def step(self, noise, sample):
        return sample - torch.tensor([0.5], device=noise.device)
"""
METRIC = """\
import torch


class Metric:
    def __init__(self, device):
        self.right = torch.zeros((), device=device)

    def update(self, *batch):
        raise NotImplementedError

    def compute(self):
        raise NotImplementedError


class Right(Metric):
    def update(self, scores, target):
        self.right.add_((scores.argmax(-1) == target).sum())

    def compute(self):
        return self.right.item()
"""
PROCESSOR = """\
import torch


class Minimum:
    def __call__(self, ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        return scores if ids.shape[1] > int(ids.max()) else scores * 2
"""
AUTOGRAD = """\
import torch


class Guarded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        if torch.isnan(grad).any():
            return grad * 0
        return grad
"""
OPERATOR = """\
import torch


def decode(codes):
    return codes * codes.max().item()


def decode_fake(codes):
    return codes.new_empty(codes.max().item())


library = torch.library.Library("engine", "DEF")
library.define("decode(Tensor codes) -> Tensor")
library.impl("decode", decode, "CUDA")
library.impl("decode", decode_fake, "Meta")
"""
REGISTRY = """\
import torch

AGGREGATIONS = {}


def aggregation(name):
    def enter(fn):
        AGGREGATIONS[name] = fn
        return fn

    return enter


@aggregation("expand")
def expand(x, ptr):
    return x.repeat_interleave(ptr.diff(), dim=0)


def named(fn):
    return fn


@named
def other(x, ptr):
    return x.repeat_interleave(ptr.diff(), dim=0)
"""
TABLE = """\
import torch


def spread(x):
    return x / x.std().item()


def alone(x):
    return x / x.std().item()


SCALES = {"spread": spread}
"""
HOOKS = """\
import torch


def stop(param):
    if not torch.isfinite(param.grad).all():
        param.grad.zero_()


def watch(model, hook=stop):
    for param in model.parameters():
        param.register_post_accumulate_grad_hook(hook)


def peak(module, args, output):
    module.peak = output.abs().max().item()
"""
REPLACED = """\
import functools


def checked(original, x):
    if x.abs().amax() > 2.0:
        x = x.clamp(-2.0, 2.0)
    return original(x)


def guard(module):
    module.forward = functools.partial(checked, module.forward)
"""
TRAINER = """\
class Trainer:
    def train_step(self, x, y):
        loss = self.model(x, y)
        loss.backward()
        return loss.item()
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(OPTIMIZER, [("GS102", 17, "step of an optimizer, scheduler or sampler")], id="optimizer"),
        pytest.param(WRAPPER, [("GS504", 11, "step of an optimizer, scheduler or sampler")], id="by its groups"),
        pytest.param(
            SAMPLER,
            [
                ("GS101", 6, "step of an optimizer, scheduler or sampler"),
                ("GS301", 14, "step of an optimizer, scheduler or sampler"),
            ],
            id="sampler",
        ),
        pytest.param(METRIC, [("GS101", 20, "update or compute of a metric")], id="metric"),
        pytest.param(PROCESSOR, [("GS101", 6, "a callable that takes tensors")], id="callable"),
        pytest.param(AUTOGRAD, [("GS102", 11, "of a torch.autograd.Function")], id="autograd"),
        pytest.param(OPERATOR, [("GS101", 5, "the implementation of a custom operator")], id="operator"),
        pytest.param(REGISTRY, [("GS201", 16, "entered in a table or registry")], id="registry"),
        pytest.param(TABLE, [("GS101", 5, "entered in a table or registry")], id="table"),
        pytest.param(
            HOOKS,
            [("GS102", 5, "a hook of a module or tensor"), ("GS101", 15, "a hook of a module or tensor")],
            id="hooks",
        ),
        pytest.param(REPLACED, [("GS102", 5, "put in place of a forward")], id="replaced forward"),
        pytest.param(TRAINER, [("GS101", 5, "an entry point of an engine")], id="training step"),
    ],
)
def test_what_runs_in_a_step_by_its_form_is_hot(
    tmp_path: Path, source: str, expected: list[tuple[str, int, str]]
) -> None:
    (tmp_path / "code.py").write_text(source)
    assert found(tmp_path) == expected


def test_steps_of_numbers_are_not_hot(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "import random\n\n\nclass Game:\n    def step(self, action):\n        return action * random.random()\n"
    )
    assert not found(tmp_path)


def test_kernels_that_are_callables_are_not_hot(tmp_path: Path) -> None:
    source = PROCESSOR.replace("import torch", "import torch\nfrom cutlass import cute")
    (tmp_path / "code.py").write_text(source.replace("    def __call__", "    @cute.jit\n    def __call__"))
    assert not found(tmp_path)


def test_what_a_step_calls_is_read_with_what_it_passes_only(tmp_path: Path) -> None:
    source = """\
import torch

SCALES = {}


def register(fn):
    SCALES[fn.__name__] = fn
    return fn


@register
def scaled(x, factor):
    return x * factor.item()


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.ones(1)

    def forward(self, x):
        return scaled(x, torch.ones(1, device="cpu"))
"""
    (tmp_path / "code.py").write_text(source)
    assert not found(tmp_path)


LOSSES = """\
import torch


def hard(loss, positive):
    return loss.topk(count_of(positive))


def count_of(positive):
    return int(positive.sum())


def _private(loss):
    return loss.item()


def described(text):
    return text.title()
"""


CAPTURES = "import torch\n\n\ndef capture(step):\n    return torch.cuda.make_graphed_callables(step, ())\n"


def test_public_functions_of_a_package_that_captures_nothing_itself(tmp_path: Path) -> None:
    package = tmp_path / "losses"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "hard.py").write_text(LOSSES)
    (tmp_path / "script.py").write_text(LOSSES)
    expected = [("GS101", 9, "a public function that its package does not call itself")]
    assert found(tmp_path) == expected
    (package / "model.py").write_text("import torch\n\n\nclass M(torch.nn.Module):\n    def forward(self, x): ...\n")
    assert found(tmp_path) == expected
    (package / "graphs.py").write_text(CAPTURES)
    assert not found(tmp_path)


def test_what_gives_no_tensor_back_is_no_step(tmp_path: Path) -> None:
    package = tmp_path / "metrics"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "offline.py").write_text("import torch\n\n\ndef error(x, y):\n    return (x - y).abs().mean().item()\n")
    assert not found(tmp_path)


def test_an_edit_that_makes_a_public_function_a_root_is_seen(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    package = tmp_path / "losses"
    package.mkdir()
    cache = tmp_path_factory.mktemp("cache")
    (package / "__init__.py").write_text("")
    (package / "hard.py").write_text("import torch\n\n\ndef kept(x):\n    return x * 2\n")
    assert not found(tmp_path, cache)
    (package / "hard.py").write_text(
        "import torch\n\n\ndef kept(x):\n    return x * 2\n\n\ndef new(x):\n    return x * x.sum().item()\n"
    )
    assert [code for code, *_ in found(tmp_path, cache)] == ["GS101"]
    (package / "graphs.py").write_text(CAPTURES)
    assert not found(tmp_path, cache)


def found(project: Path, cache: Path | None = None) -> list[tuple[str, int, str]]:
    """Findings above note: code, line, and why what leads to the line is a root."""
    findings = scan_paths([project], Config(root=project), cache=cache).findings
    return [(f.code, f.location.line, str(f.data["root"])) for f in findings if f.level != "note"]
