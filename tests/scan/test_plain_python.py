"""Values followed through plain Python: decorators, closures, special methods, names chosen as the code runs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

HEAD = "import functools\nfrom dataclasses import dataclass, fields\nimport torch\nfrom torch import nn\n\n"


def found(tmp_path: Path, source: str) -> list[tuple[str, str]]:
    """Code and line of each finding above note."""
    text = HEAD + textwrap.dedent(source)
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    lines = text.splitlines()
    return [
        (f.code, lines[f.location.line - 1].strip())
        for f in scan_paths([tmp_path / "step.py"], Config(root=tmp_path)).findings
        if f.level != "note"
    ]


def test_a_decorated_function_is_what_its_decorator_made(tmp_path: Path) -> None:
    source = """\
        def as_number(fn):
            @functools.wraps(fn)
            def inner(*args, **kwargs):
                return float(fn(*args, **kwargs))
            return inner

        @as_number
        def spread(x):
            return x.std()

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                return x / spread(x)
        """
    assert found(tmp_path, source) == [("GS101", "return float(fn(*args, **kwargs))")]


def test_a_default_is_computed_where_its_function_is_defined(tmp_path: Path) -> None:
    source = """\
        def once(t=torch.ones(2, device="cuda").sum().item()):
            return t

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                def inner(total=x.sum().item(), *, least=x.min().item()):
                    return total - least
                scaled = lambda y, by=x.max().item(): y * by
                return scaled(x) * once()
        """
    lines = [line for _, line in found(tmp_path, source)]
    assert lines == ["def inner(total=x.sum().item(), *, least=x.min().item()):"] * (len(lines) - 1) + [
        "scaled = lambda y, by=x.max().item(): y * by"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "sock.send(pickle.dumps(given))",
        "given.sort(key=len)\n    print(given, given[0])",
        "return [given.item(i) for i in range(3)]",
        "return [given.attrs.item(i) for i in range(3)]",
        "print(given[:])",
    ],
)
def test_what_any_object_has_makes_no_tensor(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, f"import pickle\n\ndef step(sock, given):  # graphsafe: hot\n    {body}\n") == []


def test_a_pickled_tensor_is_copied(tmp_path: Path) -> None:
    source = "import pickle\n\ndef step(sock, x: torch.Tensor):  # graphsafe: hot\n    sock.send(pickle.dumps(x))\n"
    assert found(tmp_path, source) == [("GS103", "sock.send(pickle.dumps(x))")]


def test_a_decorated_forward_is_read_as_the_decorator_calls_it(tmp_path: Path) -> None:
    source = """\
        def checked(forward):
            @functools.wraps(forward)
            def inner(self, x, lengths):
                if lengths.max() > self.limit:
                    x = x * 2
                return forward(self, x, lengths)
            return inner

        class Step(nn.Module):
            @checked
            def forward(self, x, lengths):
                return x[: lengths.sum().item()]
        """
    assert found(tmp_path, source) == [
        ("GS102", "if lengths.max() > self.limit:"),
        ("GS101", "return x[: lengths.sum().item()]"),
    ]


def test_what_a_closure_keeps_between_calls_is_state(tmp_path: Path) -> None:
    source = """\
        def every_other(step):
            calls = 0

            def inner(x: torch.Tensor):
                nonlocal calls
                calls += 1
                return x * 2 if calls % 2 else x
            return inner

        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.step = every_other(None)

            def forward(self, x: torch.Tensor):
                return self.step(x)
        """
    assert found(tmp_path, source) == [("GS702", "calls += 1")]


def test_what_a_closure_of_the_step_changes_is_none(tmp_path: Path) -> None:
    source = """\
        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                count = 0

                def add(part):
                    nonlocal count
                    count += 1
                    return part * count
                return add(x) + add(x)
        """
    assert found(tmp_path, source) == []


@pytest.mark.parametrize(
    ("use", "method", "line", "code"),
    [
        ("x / len(batch)", "__len__", "return int(self.lengths.sum())", "GS101"),
        ("x if batch else x * 2", "__bool__", "return bool(self.lengths.sum() > 0)", "GS101"),
        ("x * int(batch)", "__int__", "return int(self.lengths.sum())", "GS101"),
        ("sum(x * n for n in batch)", "__iter__", "return iter(self.lengths.tolist())", "GS101"),
    ],
)
def test_what_python_asks_of_an_object(tmp_path: Path, use: str, method: str, line: str, code: str) -> None:
    source = f"""\
        @dataclass
        class Batch:
            lengths: torch.Tensor

            def {method}(self):
                {line}

        class Step(nn.Module):
            def forward(self, x: torch.Tensor, batch: Batch):
                return {use}
        """
    assert found(tmp_path, source) == [(code, line)]


def test_a_key_function_is_called_with_the_elements(tmp_path: Path) -> None:
    source = """\
        class Step(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                order = sorted(range(4), key=lambda row: lengths[row])
                return x[order[0]]
        """
    assert found(tmp_path, source) == [("GS102", "order = sorted(range(4), key=lambda row: lengths[row])")]


def test_a_field_by_a_name_chosen_as_the_code_runs(tmp_path: Path) -> None:
    source = """\
        @dataclass
        class Inputs:
            ids: torch.Tensor
            positions: torch.Tensor

            def on_host(self):
                return [getattr(self, f.name).cpu() for f in fields(self)]

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                return Inputs(x, x).on_host()
        """
    assert found(tmp_path, source) == [("GS103", "return [getattr(self, f.name).cpu() for f in fields(self)]")]


@pytest.mark.parametrize(
    ("step", "codes"),
    [
        ("keep = slots >= 0\nreturn x[keep]", ["GS202"]),
        ("keep = a[0] != a[1]\nreturn a[:, keep]", ["GS202"]),
        ("return x.new_zeros(b[-1] + 1).index_add_(0, b, x)", ["GS203"]),
        ("return torch.tensor([0.1, 0.2]).to(like) * x", ["GS301"]),
        ("return torch.hann_window(8).type_as(x) * x", ["GS304"]),
        ("return x[0] if slots == 'first' else x[1]", []),
        ("return x[slots]", []),
    ],
    ids="mask sliced size like type-as text index".split(),
)
def test_parameters_are_tensors_by_what_is_done_with_them(tmp_path: Path, step: str, codes: list[str]) -> None:
    body = textwrap.indent(step, " " * 8)
    source = f"class Step(nn.Module):\n    def forward(self, x, a, b, like, slots):\n{body}\n"
    assert [code for code, _ in found(tmp_path, source) if code != "GS401"] == codes


def test_of_several_functions_those_are_meant_that_take_the_arguments(tmp_path: Path) -> None:
    source = """\
        def plain(x):
            return x * 2

        def limited(x, limit):
            return x[: int(limit)]

        LOSSES = {"plain": plain, "limited": limited}

        class Step(nn.Module):
            def __init__(self, kind):
                super().__init__()
                self.loss = LOSSES[kind]

            def forward(self, x: torch.Tensor):
                return self.loss(x)
        """
    assert found(tmp_path, source.replace("LOSSES", "_losses")) == []


def test_the_constructor_of_an_object_that_a_step_makes_runs_in_the_step(tmp_path: Path) -> None:
    source = """\
        class Solver:
            def __init__(self, y, rate):
                self.rate = torch.as_tensor(rate, device=y.device)
                self.count = 0
                self.y = y

            def run(self):
                self.count += 1
                return self.y * self.rate * self.count

        class Euler(Solver):
            pass

        SOLVERS = {"plain": Solver, "euler": Euler}

        class Step(nn.Module):
            def forward(self, x: torch.Tensor, kind: str = "plain"):
                return SOLVERS[kind](x, 0.1).run()
        """
    assert found(tmp_path, source) == [("GS301", "self.rate = torch.as_tensor(rate, device=y.device)")]


def test_what_a_constructor_is_given_is_what_its_object_holds(tmp_path: Path) -> None:
    source = """\
        class Batch:
            def __init__(self, lengths):
                self.lengths = lengths

            def longest(self):
                return int(self.lengths.max())

        class Step(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                return x[: Batch(lengths).longest()]
        """
    assert found(tmp_path, source) == [("GS101", "return int(self.lengths.max())")]


def test_a_module_with_a_call_of_its_own(tmp_path: Path) -> None:
    source = """\
        class Strategy(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("ready", torch.tensor(0))

            def __call__(self, x: torch.Tensor):
                if not self.ready.item():
                    x = x * 2
                return super().__call__(x)

            def forward(self, x: torch.Tensor):
                return x + 1
        """
    assert found(tmp_path, source) == [("GS101", "if not self.ready.item():")]


def test_the_fields_of_a_named_tuple_are_what_it_was_made_of(tmp_path: Path) -> None:
    source = """\
        from collections import namedtuple

        State = namedtuple("State", "x, steps")
        Pair = namedtuple("Pair", ["left", "right"])

        class Step(nn.Module):
            def forward(self, x: torch.Tensor, n: int):
                state = State(x.sum(), steps=n)
                if state.steps > 3:
                    n = n + 1
                if state.x > 3:
                    x = x + 1
                state = state._replace(x=n, steps=x.max())
                if state.x > 4:
                    n = n + 1
                if state.steps > 4:
                    x = x + 1
                left, right = Pair(n, x.min())
                if left > 5:
                    n = n + 1
                if right > 5:
                    x = x + 1
                return x
        """
    assert found(tmp_path, source) == [
        ("GS102", "if state.x > 3:"),
        ("GS102", "if state.steps > 4:"),
        ("GS102", "if right > 5:"),
    ]


def test_a_constructor_reads_what_the_class_body_holds_until_it_assigns_it(tmp_path: Path) -> None:
    source = """\
        class Solver:
            def __init__(self, start):
                self.weights = self.weights.to(start.device)
                self.start = start

            def step(self):
                return self.start * self.weights.to(self.start.device)

        class Third(Solver):
            weights = torch.tensor([0.5, 0.25, 0.25])

        class Moved(Solver):
            weights = torch.tensor([0.5, 0.5])

            def __init__(self, start):
                self.weights = torch.ones(2, device=start.device)
                super().__init__(start)

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                return {body}
        """
    copy = ("GS301", "self.weights = self.weights.to(start.device)")
    assert found(tmp_path, source.replace("{body}", "Third(x).step()")) == [copy]
    assert found(tmp_path, source.replace("{body}", "Moved(x).step()")) == []


def test_what_only_a_tracer_gets_is_no_value_of_a_step(tmp_path: Path) -> None:
    source = """\
        def count(index):
            if torch.jit.is_tracing():
                return index.max() + 1
            return int(index.max()) + 1

        class Step(nn.Module):
            def forward(self, x: torch.Tensor, index: torch.Tensor):
                n = 4
                if not torch.jit.is_scripting():
                    x = x + 1
                else:
                    n = x.max()
                return x.new_zeros(count(index)) + x.new_zeros(n)
        """
    assert found(tmp_path, source) == [("GS101", "return int(index.max()) + 1")]


def test_a_number_is_never_equal_to_a_text(tmp_path: Path) -> None:
    source = """\
        def ratio(a, b, if_zero):
            if if_zero == "warn" and torch.any(b == 0):
                print("a zero")
            return a / b

        class Step(nn.Module):
            def __init__(self, if_zero: float = 0, mode: str = "mean"):
                super().__init__()
                self.if_zero, self.mode = if_zero, mode

            def forward(self, x: torch.Tensor):
                return ratio(x, x + 1, self.if_zero) + ratio(x, x + 2, {last})
        """
    assert found(tmp_path, source.replace("{last}", "0.5")) == []
    assert found(tmp_path, source.replace("{last}", "self.mode")) == [
        ("GS102", 'if if_zero == "warn" and torch.any(b == 0):')
    ]


def test_what_has_private_methods_of_a_class_is_no_tensor(tmp_path: Path) -> None:
    source = """\
        class Step(nn.Module):
            def forward(self, builder, x: torch.Tensor):
                return solve(builder(x), x)

        def solve(operator, x):
            operator.{method}(x)
            if x.ndim > 1:
                return operator.detach()
            return operator.cholesky()
        """
    line = ("GS106", "return operator.cholesky()")
    assert found(tmp_path, source.replace("{method}", "_solve")) == []
    assert found(tmp_path, source.replace("{method}", "_indices")) == [line]


def test_what_calls_give_is_a_tensor_by_the_methods_that_it_has(tmp_path: Path) -> None:
    source = """\
        class Step(nn.Module):
            def __init__(self, norm, table):
                super().__init__()
                self.norm, self.table = norm, table

            def forward(self, x: torch.Tensor):
                error = self.norm(x).abs()
                if error < 1e-3:
                    x = x + 1
                if self.norm(x).name < 3:
                    x = x + 2
                if self.table().abs() < 4:
                    x = x + 3
                return x
        """
    assert found(tmp_path, source) == [("GS102", "if error < 1e-3:")]


def test_rows_of_a_list_that_a_tensor_gave_are_numbers(tmp_path: Path) -> None:
    source = """\
        class Step(nn.Module):
            def forward(self, x: torch.Tensor, shapes: torch.Tensor):
                parts = []
                for height, width in shapes.tolist():
                    if height % 2 != 0:
                        raise ValueError(f"{height} is odd")
                    parts.append(torch.arange(height * width))
                return x[torch.cat(parts).to(x.device)]
        """
    assert found(tmp_path, source) == [
        ("GS101", "for height, width in shapes.tolist():"),
        ("GS304", "return x[torch.cat(parts).to(x.device)]"),
    ]


def test_a_tensor_that_is_handed_in_for_an_int_is_used_like_one(tmp_path: Path) -> None:
    source = """\
        class Schedule(nn.Module):
            def __init__(self, betas: torch.Tensor, times: torch.Tensor):
                super().__init__()
                self.register_buffer("alphas", torch.cumprod(1 - betas, 0))
                self.register_buffer("times", times)

            def scaled(self, x, time: int):
                return x * self.alphas[time]

            def forward(self, x: torch.Tensor):
                for number, time in enumerate(self.times):
                    x = self.scaled(x, {time})
                return x
        """
    told = [("GS101", "return x * self.alphas[time]")]
    assert found(tmp_path, source.replace("{time}", "time")) == told
    assert found(tmp_path, source.replace("{time}", "time / 2")) == []
    assert found(tmp_path, source.replace("{time}", "number")) == []


def test_a_constructor_runs_that_of_the_librarys_class(tmp_path: Path) -> None:
    source = """\
        class Noise(torch.distributions.Normal):
            def __init__(self, scale, checked=False):
                super().__init__(torch.zeros_like(scale), scale, validate_args={checked})

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                return Noise(x.exp()).rsample()
        """
    line = "super().__init__(torch.zeros_like(scale), scale, validate_args=True)"
    assert found(tmp_path, source.replace("{checked}", "True")) == [("GS106", line)]
    assert found(tmp_path, source.replace("{checked}", "checked")) == []


def test_a_distribution_checks_what_it_is_asked_about_unless_told_not_to(tmp_path: Path) -> None:
    source = """\
        from torch.distributions.normal import Normal

        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.prior = torch.distributions.Gamma(torch.ones(3, device="cuda"), 1.0{checked})
                self.noise = Normal(torch.zeros(3, device="cuda"), 1.0{checked})

            def forward(self, x: torch.Tensor):
                shift = self.prior.rsample() + self.noise.mean + self.prior.entropy()
                likely = self.prior.log_prob(x)
                return self.noise.sample() + shift + likely
        """
    likely, drawn = (
        ("GS106", "likely = self.prior.log_prob(x)"),
        ("GS106", "return self.noise.sample() + shift + likely"),
    )
    assert found(tmp_path, source.replace("{checked}", "")) == [likely, drawn]
    # The sampler itself asks whether the spread is negative.
    assert found(tmp_path, source.replace("{checked}", ", validate_args=False")) == [drawn]


def test_a_cast_promises_what_an_annotation_promises(tmp_path: Path) -> None:
    source = """\
        from typing import cast

        class Step(nn.Module):
            def __init__(self, shared):
                super().__init__()
                self.shared = shared

            def forward(self, x: torch.Tensor):
                share = cast(torch.Tensor, self.shared)
                count = cast(torch.Tensor, 3)
                return x * share.item() * float(count)
        """
    assert found(tmp_path, source) == [("GS101", "return x * share.item() * float(count)")]


def test_where_one_of_two_annotations_is_wrong_nothing_is_said(tmp_path: Path) -> None:
    source = """\
        from typing import Optional

        class Step(nn.Module):
            def __init__(self, rows):
                super().__init__()
                self.rows = rows

            def forward(self, x: torch.Tensor):
                return self.summed(x, self.rows(x))

            def summed(self, x, count: torch.Tensor):
                return padded(x, {count})

        def padded(x, count: Optional[int] = None):
            return x.new_zeros(count)
        """
    assert found(tmp_path, source.replace("{count}", "count")) == []
    assert found(tmp_path, source.replace("{count}", "x.sum()")) == [("GS203", "return x.new_zeros(count)")]


def test_a_class_body_may_bind_several_names_at_once(tmp_path: Path) -> None:
    source = """\
        class Body(nn.Module):
            gravity, rows = 9.8, torch.ones(2)
            mass, (width, height) = 1.0, (2, 3)

            def forward(self, x: torch.Tensor):
                x = x * self.gravity * self.mass
                return x + self.rows.to(x.device)
        """
    assert found(tmp_path, source) == [("GS304", "return x + self.rows.to(x.device)")]


@pytest.mark.parametrize(("end", "codes"), [("raise RuntimeError(bad)", []), ("self.bad = bad", ["GS201"])])
def test_what_runs_only_before_the_step_raises_is_in_no_step(tmp_path: Path, end: str, codes: list[str]) -> None:
    source = f"""\
        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                self.check(x)
                return x

            def check(self, x):
                if x.shape[0] < 4:
                    return
                bad = x.nonzero()
                {end}
        """
    assert [code for code, _ in found(tmp_path, source)] == codes


@pytest.mark.parametrize(
    ("test", "codes"),
    [
        ("self.step % 10 == 0", []),
        ("self.step % 2 == 0", ["GS103"]),
        ("x.dim() % 10 == 0", ["GS103"]),
        ("self.step >= self.interval", []),
    ],
)
def test_what_is_done_every_so_many_steps_is_no_step(tmp_path: Path, test: str, codes: list[str]) -> None:
    source = f"""\
        class Step(nn.Module):
            step: int

            def forward(self, x: torch.Tensor):
                if self.recording and {test}:
                    self.record(x.cpu())
                return x
        """
    assert [code for code, _ in found(tmp_path, source)] == codes


def test_an_object_of_another_library_is_no_tensor_though_it_has_such_methods(tmp_path: Path) -> None:
    source = """\
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from pymatgen.core import Structure

        class Converter(nn.Module):
            def forward(self, structure: Structure):
                structure.to(filename="seen.cif")
                near = [distance for distance in structure.split(3) if distance < 3]
                return len(near)
        """
    assert found(tmp_path, source) == []
    assert [code for code, _ in found(tmp_path, source.replace(": Structure", ""))] == ["GS102"]


def test_an_attribute_that_is_unknown_or_none_may_be_a_number(tmp_path: Path) -> None:
    source = """\
        from torch.nn import functional as F

        class Step(nn.Module):
            def __init__(self, space, uses_actions):
                super().__init__()
                self.uses_actions = uses_actions
                if uses_actions:
                    self.actions = space["actions"].n
                else:
                    self.actions = None

            def forward(self, x: torch.Tensor):
                return F.one_hot(x, self.actions) if self.uses_actions else x
        """
    assert found(tmp_path, source) == []


@pytest.mark.parametrize(("captured", "codes"), [("self.fast(x, y)", []), ("y", ["GS608"])])
def test_another_function_for_captures_may_do_the_same_work(tmp_path: Path, captured: str, codes: list[str]) -> None:
    source = f"""\
        class Step(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor):
                if torch.cuda.is_current_stream_capturing():
                    return {captured}
                else:
                    return self.plain(x, y)

            def fast(self, x, y):
                return x.mul(y)

            def plain(self, x, y):
                return x * y
        """
    assert [code for code, _ in found(tmp_path, source)] == codes


@pytest.mark.parametrize(("method", "codes"), [("has('masks')", []), ("sum()", ["GS102"])])
def test_what_has_a_method_that_tensors_lack_may_be_an_object(tmp_path: Path, method: str, codes: list[str]) -> None:
    source = f"""\
        class Detector(nn.Module):
            def forward(self, batch):
                found = [x["instances"].to("cuda:0") for x in batch]
                if found[0].{method}:
                    return found
                return []
        """
    assert [code for code, _ in found(tmp_path, source) if code != "GS604"] == codes


@pytest.mark.parametrize(
    ("given", "codes"),
    [("read=read", ["GS101"]), ("read=str", []), ("other=read", [])],
    ids="held library other".split(),
)
def test_functions_in_a_namespace_are_followed(tmp_path: Path, given: str, codes: list[str]) -> None:
    source = f"""\
        from types import SimpleNamespace

        def read(x):
            return x.max().item()

        ops = SimpleNamespace({given}, scale=2)

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                return x * ops.scale, ops.read(x)
        """
    assert [code for code, _ in found(tmp_path, source)] == codes


@pytest.mark.parametrize(
    ("size", "codes"), [("output_shape", []), ("count", ["GS203"]), ("output_shape[0]", ["GS203"])]
)
def test_a_shape_that_is_annotated_as_a_tensor_is_a_shape(tmp_path: Path, size: str, codes: list[str]) -> None:
    source = f"""
        class Head(nn.Module):
            def forward(self, x: torch.Tensor, output_shape: torch.Tensor, count: torch.Tensor):
                return x.view({size})
        """
    assert [code for code, _ in found(tmp_path, source)] == codes


@pytest.mark.parametrize(
    "test", ["type(x) == list", "type(x) is list", "type(x) in (list, tuple)", "isinstance(x, list)"]
)
def test_a_test_of_the_type_tells_what_each_branch_gets(tmp_path: Path, test: str) -> None:
    source = f"""\
        class Mask(nn.Module):
            def parts(self, x):
                if {test}:
                    return [self.one(each) for each in x]
                return self.one(x)

            def one(self, x):
                return x * torch.ones(4, device="cuda", dtype=torch.bool)

            def forward(self, x: torch.Tensor):
                return self.parts([x, x])
    """
    assert not [line for code, line in found(tmp_path, source) if code == "GS101"]


def test_methods_of_the_result_of_an_unknown_call_show_that_it_is_a_tensor(tmp_path: Path) -> None:
    source = """\
        class Loss(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor):
                off = self.net(x).sub(y).log()
                picked = torch.zeros(4, device=x.device)
                picked[x > 0] = self.net(x)
                return off.mean().item()
    """
    assert found(tmp_path, source) == [
        ("GS202", "picked[x > 0] = self.net(x)"),
        ("GS101", "return off.mean().item()"),
    ]


def test_a_self_test_in_a_step_is_not_part_of_it(tmp_path: Path) -> None:
    source = """\
        class Scale(nn.Module):
            def forward(self, x: torch.Tensor):
                y = x / x.norm().item()
                if __name__ == "__main__":
                    print(y.max().item())
                return y
    """
    assert found(tmp_path, source) == [("GS101", "y = x / x.norm().item()")]
