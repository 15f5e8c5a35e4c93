"""Hot code where no known step begins: each form by which a function is taken to run in a step, and what is not."""

from __future__ import annotations

import textwrap
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
BOUND = """\
import types


def checked(self, x):
    return x if x.abs().amax() > 2.0 else self.linear(x)


def halved(self, x):
    return self.linear(x) / x.amax().item()


def export(self, x):
    return x.tolist()


def guard(one, other):
    one.forward = types.MethodType(checked, one)
    other.forward = halved.__get__(other, type(other))
    other.export = types.MethodType(export, other)
"""
RESULTS = "a function that computes numbers from tensors"
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
        pytest.param(REPLACED, [("GS102", 5, "replaces the forward of a module")], id="replaced forward"),
        pytest.param(
            BOUND,
            [("GS102", 5, "replaces the forward of a module"), ("GS101", 9, "replaces the forward of a module")],
            id="bound forward",
        ),
        pytest.param(TRAINER, [("GS101", 5, RESULTS)], id="training step"),
    ],
)
def test_what_runs_in_a_step_by_its_form_is_hot(
    tmp_path: Path, source: str, expected: list[tuple[str, int, str]]
) -> None:
    (tmp_path / "code.py").write_text(source)
    assert found(tmp_path) == expected


ENGINE = """\
import torch


class Runner:
    def __init__(self, model):
        self.model = model

    def run(self, ids):
        return self.model(torch.tensor(ids, dtype=torch.int64, device="cuda"))

    def forward(self, x):
        return x * 2


class Engine:
    def __init__(self, model, scheduler):
        self.runner = Runner(model)
        self.scheduler = scheduler

    def step(self):
        ids = self.scheduler.schedule()
        self.scheduler.finish(ids, self.runner.run(ids))

    def generate(self):
        while self.scheduler.is_busy():
            self.step()
"""


@pytest.mark.parametrize(("loop", "lines"), [("while", [9]), ("if", [])])
def test_an_engine_takes_steps_until_its_requests_are_finished(tmp_path: Path, loop: str, lines: list[int]) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine/__init__.py").write_text("")
    (tmp_path / "engine/core.py").write_text(ENGINE.replace("while", loop))
    (tmp_path / "example.py").write_text(
        "from engine.core import Engine\n\nif __name__ == '__main__':\n    Engine(None, None).generate()\n"
    )
    assert sorted({line for _, line, _ in found(tmp_path)}) == lines


REQUEST = """\
from dataclasses import dataclass

import torch


@dataclass
class Request:
    name: str
    lengths: KIND


class Scheduler:
    def step(self, request: Request):
        lengths = request.lengths
        total = torch.zeros(8, device="cuda").sum()
        return lengths, int(total)
"""


@pytest.mark.parametrize(("kind", "lines"), [("torch.Tensor | None", [15, 16]), ("list[int]", [])])
def test_a_step_takes_tensors_in_the_fields_of_a_request(tmp_path: Path, kind: str, lines: list[int]) -> None:
    (tmp_path / "code.py").write_text(REQUEST.replace("KIND", kind))
    assert [line for _, line, _ in found(tmp_path)] == lines


def test_steps_of_numbers_are_not_hot(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "import random\n\n\nclass Game:\n    def step(self, action):\n        return action * random.random()\n"
    )
    assert not found(tmp_path)


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("self, image", "h, w = image.size\n        return torch.eye(3) * torch.rand([]) * h / w * image"),
        ("self, start, stop", "return torch.linspace(start, stop, 8).cpu()"),
    ],
    ids="image numbers".split(),
)
def test_callables_that_take_no_tensors_are_not_hot(tmp_path: Path, parameters: str, body: str) -> None:
    """The size of an image is a pair, that of a tensor is asked for by a call; `linspace` takes numbers."""
    source = f"import torch\n\n\nclass Turn:\n    def __call__({parameters}):\n        {body}\n"
    (tmp_path / "code.py").write_text(source)
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


def count_of(positive: torch.Tensor):
    return int(positive.sum())


def _private(loss):
    return loss.item()


def described(text):
    return text.title()


class Chain:
    def sample(self, start):
        place = torch.zeros_like(start["place"])
        return place if place.sum() > 0 else -place

    def plan(self, start):
        return torch.zeros_like(start["place"]).item()
"""


CAPTURES = "import torch\n\n\ndef capture(step):\n    return torch.cuda.make_graphed_callables(step, ())\n"
PUBLIC = "a public function that works on tensors"


def packaged(tmp_path: Path, source: str) -> Path:
    package = tmp_path / "losses"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "hard.py").write_text(source)
    return package


def test_public_functions_of_a_package_that_captures_nothing_itself(tmp_path: Path) -> None:
    package = packaged(tmp_path, LOSSES)
    (tmp_path / "script.py").write_text(LOSSES)
    sampler = ("GS102", 23, "step of an optimizer, scheduler or sampler")
    assert found(tmp_path) == [("GS101", 9, PUBLIC), sampler]
    (package / "model.py").write_text("import torch\n\n\nclass M(torch.nn.Module):\n    def forward(self, x): ...\n")
    assert found(tmp_path) == [("GS101", 9, RESULTS), sampler]
    (package / "graphs.py").write_text(CAPTURES)
    assert not found(tmp_path)


def test_a_package_without_init_captures_as_a_whole(tmp_path: Path) -> None:
    above = tmp_path / "engine"
    above.mkdir()
    packaged(above, LOSSES)
    graphs = above / "graphs"
    graphs.mkdir()
    (graphs / "__init__.py").write_text(CAPTURES)
    assert found(tmp_path)
    (graphs / "use.py").write_text("from engine.losses.hard import hard\n")
    (above / "losses" / "use.py").write_text("from engine.graphs import capture\n")
    assert not found(tmp_path)


GENERATION = """\
import torch


class Sampler:
    def __init__(self, net):
        self.net = net

    def generate(self, noise: torch.Tensor, steps):
        scale = noise.abs().max().item()
        for t in range(steps):
            noise = noise - self.net(noise)
            print(noise.sum().item())
        return noise.cpu() * scale

    def update(self, batch: torch.Tensor):
        for part in batch:
            loss = self.net(part).sum()
            loss.backward()
        return loss.item()
"""


def test_of_a_public_function_around_a_generation_the_loop_alone_is_hot(tmp_path: Path) -> None:
    """An update that trains in a loop may itself run in one."""
    packaged(tmp_path, GENERATION)
    assert [(code, line) for code, line, _ in found(tmp_path)] == [("GS101", 12), ("GS101", 19)]


def test_of_a_callable_around_a_generation_the_loop_alone_is_hot(tmp_path: Path) -> None:
    source = GENERATION.replace("def generate", "def __call__").replace("def update", "def _update")
    (tmp_path / "code.py").write_text(source)
    findings = [f for f in scan_paths([tmp_path], Config(root=tmp_path)).findings if f.level != "note"]
    assert [(f.code, f.location.line, f.region) for f in findings if f.location.line < 14] == [("GS101", 12, "step")]


AROUND_GENERATION = """\
import torch


class Pipeline:
    def text_to_image(self, noise: torch.Tensor, prompt: torch.Tensor):
        return self(noise, prompt.cpu())

    def prepared(self, noise: torch.Tensor):
        return noise / noise.max().item()

    def scaled(self, noise: torch.Tensor):
        return noise / noise.min().item()

    def unused(self, noise: torch.Tensor):
        return noise / noise.sum().item()

    def __call__(self, noise, steps):
        noise = self.prepared(noise)
        for t in steps:
            noise = self.scaled(self.dit(noise))
        return noise
"""


def test_functions_around_a_generation_run_once(tmp_path: Path) -> None:
    """They call it, or it calls them around its loop."""
    packaged(tmp_path, AROUND_GENERATION)
    assert [(code, line) for code, line, _ in found(tmp_path)] == [("GS101", 12), ("GS101", 15)]


@pytest.mark.parametrize(
    ("name", "is_hot"),
    [
        *[("initialise", False), ("save_maps", False), ("log_images", False), ("log_prob", True), ("saved", True)],
        *[("load", False), ("unload", False), ("expert_load", True)],
        *[("generate", False), ("cutoff_to_str", False), ("prepare_ids", False), ("prepared", True), ("to_rgb", True)],
    ],
)
def test_what_sets_up_saves_or_shows_is_not_hot(tmp_path: Path, name: str, is_hot: bool) -> None:
    packaged(
        tmp_path, f"import torch\n\n\nclass Flow:\n    def {name}(self, x: torch.Tensor):\n        return x.cpu()\n"
    )
    assert [code for code, *_ in found(tmp_path)] == ["GS103"] * is_hot


@pytest.mark.parametrize(("made", "is_hot"), [("nn.Parameter(rank)", False), ("rank", True)])
def test_a_function_that_makes_weights_is_not_hot(tmp_path: Path, made: str, is_hot: bool) -> None:
    source = f"""\
        from torch import Tensor, nn


        class Reduced:
            def reduce_rank(self, weight: Tensor, rank: Tensor):
                self.weight = {made}
                return weight.max().item()
        """
    packaged(tmp_path, textwrap.dedent(source))
    assert [code for code, *_ in found(tmp_path)] == ["GS101"] * is_hot


@pytest.mark.parametrize(
    ("where", "regions"),
    [
        ("net/eval/right.py", []),
        ("net/datasets/right.py", []),
        ("net/data/data_transforms.py", []),
        ("net/metrics/right.py", ["step"]),
    ],
)
def test_metrics_stand_around_graphs_and_those_of_evaluations_are_not_hot(
    tmp_path: Path, where: str, regions: list[str]
) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    for folder in (path.parent, tmp_path / "net"):
        (folder / "__init__.py").write_text("")
    path.write_text(METRIC)
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [f.region for f in findings if f.level != "note"] == regions


@pytest.mark.parametrize(("name", "codes"), [("PackingCollator", []), ("Packing", ["GS101"])])
def test_what_collates_a_batch_is_not_hot(tmp_path: Path, name: str, codes: list[str]) -> None:
    (tmp_path / "code.py").write_text(PROCESSOR.replace("Minimum", name))
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(("parameter", "codes"), [("use_attention_mask", []), ("used_mask", ["GS102"])])
def test_a_switch_for_a_mask_is_no_mask(tmp_path: Path, parameter: str, codes: list[str]) -> None:
    source = f"""\
import torch


class Encoder(torch.nn.Module):
    def forward(self, tokens: torch.Tensor, {parameter}=None):
        return tokens * 2 if {parameter} else tokens
"""
    (tmp_path / "code.py").write_text(source)
    assert [code for code, *_ in found(tmp_path)] == codes


def test_what_a_checkpoint_asks_for_is_not_hot(tmp_path: Path) -> None:
    source = "import torch\n\n\nclass Buffer:\n    def {}(self, x: torch.Tensor):\n        return x.cpu()\n"
    package = packaged(tmp_path, source.format("state_dict"))
    assert not found(tmp_path)
    (package / "hard.py").write_text(source.format("state"))
    assert [code for code, *_ in found(tmp_path)] == ["GS103"]


@pytest.mark.parametrize(
    "where", ["tests/data/losses.py", "data/test_losses.py", "data/eval/losses.py", "data/convert_losses.py"]
)
def test_public_functions_of_tests_and_the_like_are_not_hot(tmp_path: Path, where: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    for folder in (path.parent, tmp_path / "data") if "tests" not in where else (path.parent,):
        (folder / "__init__.py").write_text("")
    path.write_text("import torch\n\n\ndef matched(x, y):\n    return x[y > 0.5]\n")
    assert not found(tmp_path)


def test_what_a_package_calls_in_no_step_its_users_may_call_in_one(tmp_path: Path) -> None:
    source = """\
import torch


def matched(x, y):
    return x[y > 0.5]


def report(path):
    print(matched(*torch.load(path)))
"""
    packaged(tmp_path, source)
    assert found(tmp_path) == [("GS202", 5, PUBLIC)]


GATHERED = """\
import time

import torch


class Errors:
    def __init__(self):
        self.scores, self.calls = [], 0

    def append(self, x: torch.Tensor, y: torch.Tensor):
        self.scores.append((x - y).abs().mean(-1))
        self.calls += 1

    def summary(self):
        return {"mean": torch.cat(self.scores).mean().item()}

    def count(self):
        return len(self.scores)


class Totals:
    def __init__(self):
        self.total = torch.zeros((), device="cuda:0")

    def mean(self, steps):
        return self.total.item() / steps


def timed(model, x: torch.Tensor):
    begun = time.perf_counter()
    model(x).sum().item()
    return time.perf_counter() - begun
"""


def test_what_a_metric_has_gathered_is_computed_with_in_a_step(tmp_path: Path) -> None:
    packaged(tmp_path, GATHERED)
    assert [place for place in found(tmp_path) if place[0] == "GS101"] == [("GS101", 15, RESULTS)]


def test_what_a_step_of_a_package_calls_is_read_with_what_it_passes(tmp_path: Path) -> None:
    source = """\
import torch


def width(size, sigma):
    return int(size * sigma)


class Blur(torch.nn.Module):
    def forward(self, x):
        return x[..., : width(x.shape[-1], 0.5)]
"""
    packaged(tmp_path, source)
    assert not found(tmp_path)


@pytest.mark.parametrize(
    ("base", "value", "codes"),
    [
        ("object", "turn", ["GS101"]),
        ("object", "len(turn)", []),
        ("torch.nn.Module", "turn", []),  # a module's constructor gets weights
    ],
)
def test_an_object_that_holds_the_tensors_of_a_step_is_used_in_steps(
    tmp_path: Path, base: str, value: str, codes: list[str]
) -> None:
    (tmp_path / "turns").mkdir()
    (tmp_path / "turns/__init__.py").write_text("", encoding="utf-8")
    text = f"""\
    import torch

    class Rotation({base}):
        def __init__(self, turn: torch.Tensor, name="z"):
            self.turn = {value}
            self.name = name

        def angle(self):
            return float(self.turn.trace())

        def label(self):
            return self.name
    """
    (tmp_path / "turns/rotation.py").write_text(textwrap.dedent(text), encoding="utf-8")
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(
    ("base", "made", "codes"),
    [
        ("object", "torch.tensor(1.0, device=device)", ["GS101"]),
        ("object", "1.0", []),
        ("torch.nn.Module", "torch.tensor(1.0, device=device)", []),  # its forward is the step
    ],
)
def test_an_object_whose_constructor_puts_its_state_on_the_device_computes_with_it_in_steps(
    tmp_path: Path, base: str, made: str, codes: list[str]
) -> None:
    text = f"""\
    import torch

    class Simulation({base}):
        def __init__(self, device, layers):
            super().__init__()
            self.wave = {made}
            self.layers = layers

        def solve(self):
            return self._amplitude() / 2

        def count(self):
            return len(self.layers)

        def _amplitude(self):
            return torch.abs(self.wave).item() if torch.is_tensor(self.wave) else self.wave

        def forward(self, x):
            return x
    """
    packaged(tmp_path, textwrap.dedent(text))
    assert [code for code, *_ in found(tmp_path)] == codes


def test_a_public_function_that_reads_gradients_follows_a_backward_pass(tmp_path: Path) -> None:
    text = """\
    import torch

    def clipped(parameters, limit):
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()
        return norm.item() > limit

    def shapes(parameters):
        return [p.shape for p in parameters]
    """
    packaged(tmp_path, textwrap.dedent(text))
    assert [code for code, *_ in found(tmp_path)] == ["GS101"]


def test_a_public_function_may_only_hand_on_what_it_takes(tmp_path: Path) -> None:
    source = """\
import torch

from losses import helpers


def interpolated(x, times=None):
    return _checked(x, times)


def _checked(x, times):
    if times is None:
        times = list(range(len(x)))
    return helpers.known(values=x)


def named(text, options=None):
    return _spelt(text, options)


def _spelt(text, options):
    return text.title()


class Path:
    def __init__(self, coefficients):
        self.coefficients = coefficients

    def evaluate(self, t):
        return self._at(t)

    def _at(self, t):
        t = torch.as_tensor(t, device="cuda:0").flatten()
        return t[t > 0]
"""
    package = packaged(tmp_path, source)
    (package / "helpers.py").write_text(
        "import torch\n\n\ndef known(values):\n    return values[~torch.isnan(values)]\n"
    )
    assert {place for place in found(tmp_path) if place[0] == "GS202"} == {("GS202", 5, PUBLIC), ("GS202", 33, PUBLIC)}
    (package / "helpers.py").write_text("def known(values):\n    return [value.real for value in values]\n")
    assert {place for place in found(tmp_path) if place[0] == "GS202"} == {("GS202", 33, PUBLIC)}


@pytest.mark.parametrize(
    ("end", "region"),
    [
        ("return worst.item()", "step"),
        ("return {'worst': worst.item(), 'count': len(x)}", "step"),
        ("return x / worst.item()", "captured"),
        ("x.div_(worst.item())", "captured"),
    ],
)
def test_who_asks_for_numbers_stands_around_graphs(tmp_path: Path, end: str, region: str) -> None:
    packaged(
        tmp_path, f"import torch\n\n\ndef error(x: torch.Tensor, y):\n    worst = (x - y).abs().amax()\n    {end}\n"
    )
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [(f.code, f.region, f.data["root"]) for f in findings if f.level != "note"] == [
        ("GS101", region, RESULTS if region == "step" else PUBLIC)
    ]


@pytest.mark.parametrize(
    ("text", "captures"),
    [
        ("def compiled(model):\n    return torch.compile(model, mode='reduce-overhead')\n", True),
        ("MODES = {'default', 'reduce-overhead'}\n", False),
        ("# with torch.compile(model, mode='reduce-overhead') it is faster\n", False),
        ("def run(model):\n    '''\n    >>> torch.compile(model, mode='reduce-overhead')\n    '''\n", False),
    ],
)
def test_an_option_or_example_captures_nothing(tmp_path: Path, text: str, captures: bool) -> None:
    package = packaged(tmp_path, "import torch\n\n\ndef kept(x, y):\n    return x[y > 0]\n")
    (package / "compiled.py").write_text(f"import torch\n\n\n{text}")
    assert bool(found(tmp_path)) is not captures


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


@pytest.mark.parametrize(
    ("script", "codes"),
    [
        ("", ["GS202"]),
        ("from losses.hard import Trainer\n\nif __name__ == '__main__':\n    Trainer().fit()\n", []),
        ("from losses.hard import Trainer\n", ["GS202"]),
    ],
)
def test_a_public_function_of_an_application_is_possibly_hot(tmp_path: Path, script: str, codes: list[str]) -> None:
    """Its scripts show what runs in steps; a library's users call its functions in theirs."""
    packaged(tmp_path, "import torch\n\n\ndef matched(x, y):\n    return x[y > 0.5]\n")
    (tmp_path / "train.py").write_text(script)
    assert [code for code, *_ in found(tmp_path)] == codes
    possible = scan_paths([tmp_path], Config(root=tmp_path), confidence="possible").findings
    assert ("GS202", 5) in {(one.code, one.location.line) for one in possible}


def test_a_root_that_is_only_assumed_is_named_only_if_no_other_leads_to_the_line(tmp_path: Path) -> None:
    source = """\
import torch


def kept(x):
    return x[x > 0.5]


def matched(x):
    return kept(x) * 2


class Inner(torch.nn.Module):
    def forward(self, x):
        return self.chosen(x)

    def chosen(self, x):
        return kept(x)
"""
    packaged(tmp_path, source)
    (tmp_path / "train.py").write_text("from losses.hard import Inner\n\nif __name__ == '__main__':\n    Inner()\n")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    chains = {one.location.line: [call.function for call in one.call_chain] for one in findings if one.level != "note"}
    assert chains == {5: ["Inner.forward", "Inner.chosen"]}


@pytest.mark.parametrize(("length", "codes"), [("max_new_tokens", []), ("width", ["GS103", "GS103"])])
def test_a_callable_that_is_told_how_many_tokens_to_make_runs_once(
    tmp_path: Path, length: str, codes: list[str]
) -> None:
    source = f"""\
import torch


class Engine:
    def __call__(self, ids: torch.Tensor, {length}=64):
        return self.session.decode(ids.cpu(), {length})


class Chat:
    def __call__(self, ids: torch.Tensor):
        return self.model.generate(ids, {length}=8).cpu()
"""
    (tmp_path / "code.py").write_text(source)
    assert [code for code, *_ in found(tmp_path)] == codes


def test_of_a_function_that_is_told_when_to_stop_the_loop_alone_is_hot(tmp_path: Path) -> None:
    source = """\
import torch


def search(self, input_ids: torch.LongTensor, stopping_criteria):
    tokens = input_ids[0].tolist()
    while True:
        logits = self.guess(input_ids).logits
        token = torch.argmax(logits, dim=-1).item()
        if stopping_criteria(token):
            break
    return tokens
"""
    packaged(tmp_path, source)
    assert [line for _, line, _ in found(tmp_path)] == [8]


def test_what_the_tests_beside_a_package_define_is_not_hot(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").write_text("")
    source = """\
import torch


class TestModel:
    @staticmethod
    def forward_pass(x: torch.Tensor):
        return x.cpu()
"""
    (tmp_path / "tests" / "test_model.py").write_text(source)
    assert not found(tmp_path)


@pytest.mark.parametrize(("script", "codes"), [("demo.py", []), ("setup.py", ["GS202"]), ("docs/demo.py", ["GS202"])])
def test_a_script_at_the_top_of_a_project_makes_it_an_application(
    tmp_path: Path, script: str, codes: list[str]
) -> None:
    packaged(tmp_path, "import torch\n\n\ndef matched(x, y):\n    return x[y > 0.5]\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / script).write_text("from losses.hard import Trainer\n\nif __name__ == '__main__':\n    Trainer()\n")
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(("begin", "codes"), [("src.losses", []), ("other.losses", ["GS202"])])
def test_a_script_may_name_the_folders_above_a_package(tmp_path: Path, begin: str, codes: list[str]) -> None:
    (tmp_path / "src").mkdir()
    packaged(tmp_path / "src", "import torch\n\n\ndef matched(x, y):\n    return x[y > 0.5]\n")
    (tmp_path / "main.py").write_text(
        f"from {begin}.hard import Trainer\n\nif __name__ == '__main__':\n    Trainer()\n"
    )
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(
    ("script", "given", "called", "codes"),
    [
        ("main.py", "", "return self.step()", []),
        ("setup.py", "", "return self.step()", ["GS106"]),
        ("main.py", ", model", "return self.step(None)", ["GS106"]),
        ("main.py", "", "while True: self.step()", ["GS106"]),
        ("main.py", "", "pass", ["GS106"]),
    ],
)
def test_the_name_makes_no_step_of_a_part_of_another_method_in_an_application(
    tmp_path: Path, script: str, given: str, called: str, codes: list[str]
) -> None:
    source = f"""\
import torch


class Rounder:
    def __init__(self, layer):
        self.products = torch.zeros(layer.shape, device=layer.device)

    def quantize(self):
        {called}

    def step(self{given}):
        return torch.linalg.cholesky(self.products)
"""
    packaged(tmp_path, source)
    (tmp_path / script).write_text("from losses.hard import Rounder\n\nif __name__ == '__main__':\n    Rounder()\n")
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize("shown", ["tqdm", "track_iter_progress", "track_on_main_process"])
def test_a_callable_that_shows_progress_takes_more_than_a_step(tmp_path: Path, shown: str) -> None:
    source = f"""\
import torch
from shown import {shown}


class Decoder:
    def __call__(self, x: torch.Tensor):
        parts = [self.part(piece) for piece in {shown}(x.split(8))]
        return torch.cat(parts).cpu()
"""
    (tmp_path / "code.py").write_text(source)
    assert not found(tmp_path)
    (tmp_path / "code.py").write_text(source.replace(f"{shown}(x", "track_of(x"))
    assert [code for code, *_ in found(tmp_path)] == ["GS103"]


@pytest.mark.parametrize(("name", "lines"), [("DiffusionPipeline", []), ("Diffusion", [7])])
def test_a_pipeline_that_is_a_module_runs_once(tmp_path: Path, name: str, lines: list[int]) -> None:
    source = f"""\
import torch


class {name}(torch.nn.Module):
    def __call__(self, noise: torch.Tensor, steps):
        noise = self.solve(noise, steps)
        return noise.cpu()
"""
    (tmp_path / "code.py").write_text(source)
    assert [line for _, line, _ in found(tmp_path)] == lines


@pytest.mark.parametrize(
    ("name", "found_lines"),
    [("FlowPipeline", [(16, "GS101", "step")]), ("Flow", [(6, "GS103", "captured"), (8, "GS103", "captured")])],
)
def test_of_the_forward_of_a_pipeline_the_loop_alone_runs_in_every_step(
    tmp_path: Path, name: str, found_lines: list[tuple[int, str, str]]
) -> None:
    source = f"""\
import torch


class {name}(torch.nn.Module):
    def forward(self, noise: torch.Tensor, times):
        scale = noise.abs().max().cpu()
        noise = self.denoise(noise, times) * scale
        return noise.cpu()

    def denoise(self, noise: torch.Tensor, times):
        for time in times:
            noise = self.turn(noise, time)
        return noise

    def turn(self, noise, time):
        if noise.isnan().any().item():
            return noise
        return noise - self.transformer(noise, time)
"""
    (tmp_path / "code.py").write_text(source)
    findings = [f for f in scan_paths([tmp_path], Config(root=tmp_path)).findings if f.level != "note"]
    assert [(f.location.line, f.code, f.region) for f in findings if f.code != "GS102"][
        : len(found_lines)
    ] == found_lines


@pytest.mark.parametrize(
    ("annotation", "codes"), [("torch.Tensor | None", ["GS103"]), ("np.ndarray | torch.Tensor | None", [])]
)
def test_a_public_function_that_takes_arrays_as_well_works_on_the_host(
    tmp_path: Path, annotation: str, codes: list[str]
) -> None:
    source = f"""\
import numpy as np
import torch


def returns(rewards, values: {annotation} = None):
    return rewards + values.cpu()
"""
    packaged(tmp_path, source)
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(("kinds", "codes"), [("np.ndarray", []), ("(np.ndarray, torch.Tensor)", ["GS101"])])
def test_a_public_function_that_asks_for_arrays_alone_works_on_the_host(
    tmp_path: Path, kinds: str, codes: list[str]
) -> None:
    source = f"""\
import numpy as np
import torch


def chosen(rows, start):
    if isinstance(rows, {kinds}):
        rows = [rows]
    return [row * start.mean().tolist() for row in rows]
"""
    packaged(tmp_path, source)
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(
    ("file", "codes"), [("export_onnx.py", []), ("models_onnx.py", []), ("exporter.py", []), ("exported.py", ["GS101"])]
)
def test_modules_that_are_made_for_an_export_are_not_hot(tmp_path: Path, file: str, codes: list[str]) -> None:
    source = """\
import torch


class Decoder(torch.nn.Module):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        return x[:, : int(lengths.max())]
"""
    (tmp_path / file).write_text(source)
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(("base", "codes"), [("torch.nn.Module", []), ("object", ["GS101"])])
def test_the_sample_of_a_model_makes_a_whole_result(tmp_path: Path, base: str, codes: list[str]) -> None:
    source = f"""\
import torch


class Flow({base}):
    def sample(self, noise: torch.Tensor):
        return noise[: noise.max().item()]
"""
    (tmp_path / "code.py").write_text(source)
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(("names", "codes"), [("b, h, q_idx, kv_idx", []), ("b, h, rows, columns", ["GS101"])])
def test_indices_of_a_mask_for_flex_attention_are_no_tensors(tmp_path: Path, names: str, codes: list[str]) -> None:
    packaged(tmp_path, MASK_OF_DOCUMENTS.format(names, names.split(", ")[2]))
    assert [code for code, *_ in found(tmp_path)] == codes


MASK_OF_DOCUMENTS = """\
import torch


def masked(lengths: torch.Tensor):
    documents = torch.repeat_interleave(lengths, lengths, output_size=64)

    def same({0}):
        last = torch.minimum(lengths.sum(), {1})
        return documents[last] == 0

    return same
"""


def test_a_default_device_may_be_another_one(tmp_path: Path) -> None:
    source = """\
import torch


class Stop:
    def __init__(self, ends, device{}="cpu"):
        self.ends = torch.tensor(ends, device=device)

    def __call__(self, scores: torch.Tensor):
        return scores[:, self.ends]
"""
    (tmp_path / "code.py").write_text(source.format(": str"))
    assert not found(tmp_path)
    (tmp_path / "code.py").write_text(source.format(": str").replace("device=device", "device='cpu'"))
    assert [code for code, *_ in found(tmp_path)] == ["GS302"]


KERNEL = """\
import torch
import triton


@triton.jit
def scale_kernel(x, n):
    pass


def _launch(x, lengths):
    longest = int(lengths.max().item())
    scale_kernel[(triton.cdiv(longest, 64),)](x, longest)


def _repack_weight(weight):
    scale_kernel[(weight.max().item(),)](weight, weight.numel())


def _table(x, lengths):
    grids[longest](lengths.max().item())
"""


def test_who_launches_a_kernel_is_hot_but_not_over_the_weights(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(KERNEL)
    assert found(tmp_path) == [("GS101", 11, "launches a kernel")]


FINE_TUNED = """\
from torch.nn.functional import cross_entropy
from transformers import Trainer


class TunedTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        loss = cross_entropy(model(inputs["ids"]), inputs["labels"])
        self.log({"loss": loss.item()})
        return loss
"""
BACKEND = """\
import torch
from engine import Backend


class Sparse(Backend):
    def forward(self, query: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return query[: lengths.max().item()]

    def plan(self, rows: int) -> int:
        return rows
"""


@pytest.mark.parametrize(("source", "line"), [(FINE_TUNED, 8), (BACKEND, 7)], ids="trainer backend".split())
def test_methods_that_another_package_calls_are_hot(tmp_path: Path, source: str, line: int) -> None:
    (tmp_path / "code.py").write_text(source)
    assert ("GS101", line) in {
        (one.code, one.location.line) for one in scan_paths([tmp_path], Config(root=tmp_path)).findings
    }


CHOSEN = """\
import torch
from torch import nn


class Loss(torch.autograd.Function):
    @classmethod
    def forward(cls, ctx, x, weight=1.0, kind="mean"):
        if kind == "positive":
            return x[x > 0] * weight
        return x.mean() * weight


class Head(nn.Module):
    def forward(self, x):
        return Loss.apply(x, 2.0, "positive")
"""


def test_arguments_of_an_autograd_function_with_a_class_method(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CHOSEN)
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert ("GS202", 9) in {(one.code, one.location.line) for one in report.findings}


@pytest.mark.parametrize(
    ("where", "codes"),
    [("tests/net.py", []), ("unittests/net.py", []), ("data/net.py", []), ("net/tested.py", ["GS101"])],
)
def test_modules_of_tests_are_not_hot(tmp_path: Path, where: str, codes: list[str]) -> None:
    path = tmp_path / where
    path.parent.mkdir()
    path.write_text(
        "import torch\n\n\nclass Mock(torch.nn.Module):\n    def forward(self, x):\n        return x.sum().item()\n"
    )
    assert [code for code, *_ in found(tmp_path)] == codes


ENVIRONMENT = """\
import torch
from LIBRARY import BASE

class Robot(BASE):
    def step(self, actions=None):
        if isinstance(actions, torch.Tensor):
            actions = actions.detach().cpu().numpy()
        gain = torch.rand(3, device="cuda").max().item()
        return self.arm.move(actions * gain)
"""


@pytest.mark.parametrize(
    ("library", "base", "found"),
    [
        ("gymnasium", "Env", [("GS101", "step")]),
        ("torch.optim.optimizer", "Optimizer", [("GS103", "captured"), ("GS101", "captured")]),
    ],
)
def test_the_step_of_an_environment_is_host_code_with_arrays(
    tmp_path: Path, library: str, base: str, found: list[tuple[str, str]]
) -> None:
    source = ENVIRONMENT.replace("LIBRARY", library).replace("BASE", base)
    (tmp_path / "sim").mkdir()
    for name, text in (("__init__", ""), ("robot", source)):
        (tmp_path / "sim" / f"{name}.py").write_text(text)
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [(f.code, f.region) for f in findings if f.level != "note" and f.code in ("GS101", "GS103")] == found


@pytest.mark.parametrize(("library", "codes"), [("optuna", []), ("json", ["GS101"])])
def test_who_searches_hyperparameters_takes_no_step(tmp_path: Path, library: str, codes: list[str]) -> None:
    source = f"import torch\nimport {library}\n\ndef best(x: torch.Tensor):\n    return x[x.argmax().item()]\n"
    (tmp_path / "search").mkdir()
    for name, text in (("__init__", ""), ("space", source)):
        (tmp_path / "search" / f"{name}.py").write_text(text)
    assert [f.code for f in scan_paths([tmp_path], Config(root=tmp_path)).findings] == codes


@pytest.mark.parametrize(
    ("setting", "test", "codes"),
    [
        ("", "self.noise > 0", []),
        ("", "self.noise", []),
        ("Trainer(noise=0.0)", "self.noise > 0 and x.dim() > 1", []),
        ("Trainer(noise=0.1)", "self.noise > 0", ["GS101"]),
        ("Trainer(noise=noise)", "self.noise > 0", []),
        ("add_argument('--noise')", "self.noise > 0", ["GS101"]),
        ("", "self.noise == 0", ["GS101"]),
    ],
)
def test_a_flag_that_an_application_never_turns_on_stays_off(
    tmp_path: Path, setting: str, test: str, codes: list[str]
) -> None:
    """A library's users turn such a flag on. Findings behind it are then possible, not errors."""
    source = f"""\
import torch


class Head(torch.nn.Module):
    def __init__(self, noise: float = 0.0):
        super().__init__()
        self.noise = noise

    def forward(self, x):
        if {test}:
            x = x * x.max().item()
        return x
"""
    packaged(tmp_path, source)
    assert [code for code, *_ in found(tmp_path)] == ["GS101"]
    (tmp_path / "train.py").write_text(
        f"from losses.hard import Trainer\n\nif __name__ == '__main__':\n    Trainer().fit()\n    {setting}\n"
    )
    assert [code for code, *_ in found(tmp_path)] == codes
    possible = scan_paths([tmp_path], Config(root=tmp_path), confidence="possible").findings
    assert "GS101" in {one.code for one in possible}


@pytest.mark.parametrize(
    ("name", "text", "codes"),
    [
        ("base.yaml", "head:\n  noise: 0.1\n", ["GS101"]),
        ("base.json", '{"noise": 0.1}', ["GS101"]),
        ("run.sh", "python train.py head.noise=0.1\n", ["GS101"]),
        ("run.sh", "python train.py --noise 0.1\n", ["GS101"]),
        ("base.yaml", "head:\n  noise: 0.0\n  use_noise: 1\n", []),
        ("base.yaml", "noise: ${head.noise}\nnoise: !ref <noise>\n", []),
        ("run.sh", "python train.py --noise 0\n", []),
        ("README.md", "Without `noise` it is faster.\n", []),
    ],
)
def test_a_configuration_or_a_command_turns_a_flag_on(tmp_path: Path, name: str, text: str, codes: list[str]) -> None:
    source = """\
import torch


class Head(torch.nn.Module):
    def __init__(self, noise: float = 0.0):
        super().__init__()
        self.noise = noise

    def forward(self, x):
        if self.noise > 0:
            x = x * x.max().item()
        return x


HEAD = Head()
"""
    packaged(tmp_path, source)
    (tmp_path / "train.py").write_text("from losses.hard import HEAD\n\nif __name__ == '__main__':\n    HEAD.train()\n")
    (tmp_path / name).write_text(text)
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(
    ("test", "found_lines"),
    [
        ("finished.all()", [(7, "GS102", "step")]),
        ("ids.shape[0] > 4", [(12, "GS103", "captured")]),
    ],
)
def test_of_the_forward_that_decodes_until_the_end_the_loop_alone_runs_in_every_step(
    tmp_path: Path, test: str, found_lines: list[tuple[int, str, str]]
) -> None:
    source = f"""\
import torch


class Decoding(torch.nn.Module):
    def forward(self, ids: torch.Tensor, finished: torch.Tensor, length):
        for at in range(length):
            if {test}:
                break
            logits = self.decoder(ids[-1:], at)
            ids = torch.cat([ids, logits.argmax(-1)])
            finished = finished | (ids[-1] == 2)
        return ids.cpu()
"""
    (tmp_path / "code.py").write_text(source)
    findings = [f for f in scan_paths([tmp_path], Config(root=tmp_path)).findings if f.level != "note"]
    assert [(f.location.line, f.code, f.region) for f in findings] == found_lines


@pytest.mark.parametrize(("name", "codes"), [("Mixer", ["GS101"]), ("RandomCrop", []), ("ColorTransform", [])])
def test_a_callable_that_prepares_samples_is_not_hot(tmp_path: Path, name: str, codes: list[str]) -> None:
    source = f"""\
import torch


class {name}:
    def __call__(self, image: torch.Tensor):
        return image / image.max().item()
"""
    (tmp_path / "prepare.py").write_text(source, encoding="utf-8")
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ("self.subgraph(edges)", "pass", []),
        ("pass", "self.subgraph(edges)", ["GS101"]),
        ("pass", "pass", ["GS101"]),
    ],
)
def test_a_public_part_that_runs_before_the_loop_of_another_method(
    tmp_path: Path, first: str, second: str, codes: list[str]
) -> None:
    source = f"""\
import torch


class Attack:
    def _prepare(self, edges: torch.Tensor, rounds):
        {first}
        for _ in range(rounds):
            {second}

    def subgraph(self, edges: torch.Tensor):
        return (edges * 2).sum().item()
"""
    packaged(tmp_path, source)
    assert [code for code, *_ in found(tmp_path)] == codes


@pytest.mark.parametrize(("name", "codes"), [("test", []), ("latest", ["GS101"]), ("fit", ["GS101"])])
def test_a_public_method_that_is_a_whole_run(tmp_path: Path, name: str, codes: list[str]) -> None:
    source = f"""\
import torch


class Classifier:
    def {name}(self, scores: torch.Tensor):
        return (scores * 2).sum().item()
"""
    packaged(tmp_path, source)
    assert [code for code, *_ in found(tmp_path)] == codes
