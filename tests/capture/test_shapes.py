"""Shapes mode: what a step is refused for, and how much memory it takes, without weights and values."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from graphsafe.capture.api import kept_server

from .conftest import Answer, Prove

pytestmark = pytest.mark.slow
TARGETS = '''
import torch


def large(device):
    """Weights of 12 GB, which few machines that run this test have."""
    layers = [torch.nn.Linear(8192, 8192) for _ in range(48)]
    model = torch.nn.Sequential(*layers).to(device)
    x = torch.randn(4, 8192, device=device)

    def step(x):
        with torch.no_grad():
            return model(x).softmax(-1)

    return step, (x,)


def branches(device):
    layer = torch.nn.Linear(300, 300, device=device)

    def step(x):
        y = layer(x)
        if y.sum() > 0:
            return y * 2
        return y.cpu().to(device)

    return step, (torch.randn(4, 300, device=device),)


def selects(device):
    def step(x):
        return x[x[:, :2].sum(1) > 0].sum(), x.nonzero()

    return step, (torch.randn(4, 300, device=device),)


def stores(device):
    def step(x):
        y = x * 2
        y[0, 7] = -1.0
        return y

    return step, (torch.randn(4, 300, device=device),)


def counts(device):
    state = {"n": 0}

    def step(x):
        state["n"] += 1
        return x * state["n"]

    return step, (torch.randn(4, 300, device=device),)


def rebinds(device):
    state = {"last": torch.zeros(4, 300, device=device)}

    def step(x):
        state["last"] = (state["last"] + x).tanh()
        return state["last"] * 2

    return step, (torch.randn(4, 300, device=device),)


def positions(device):
    """Positions are known although nothing else is: they are integers, and few."""
    cache = torch.zeros(2, 64, 300, device=device)
    at = torch.arange(2, device=device)

    def step(x):
        cache.index_copy_(1, at, x)
        at.add_(1).remainder_(64)
        return (cache * (torch.arange(64, device=device) <= at.max())[None, :, None]).sum(1)

    return step, (torch.randn(2, 2, 300, device=device),)


def trains(device):
    model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.LayerNorm(300)).to(device)

    def step(x):
        model.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    return step, (torch.randn(4, 300, device=device),)


def truncates(device):
    """Both ways of the initialiser draw again while any value is out of range: the narrow range goes the second way."""
    layers = [torch.nn.Linear(600, 600, device=device) for _ in range(2)]
    for layer in layers:
        torch.nn.init.trunc_normal_(layer.weight, std=0.02)
        torch.nn.init.trunc_normal_(layer.weight, std=10.0, a=-1.0, b=1.0)
    return torch.nn.Sequential(*layers), (torch.randn(4, 600, device=device),)


def far(weight):
    return bool((weight.abs() > 3).any())


def draws_again(device):
    """The first loop asks through a function; the second one asks two questions in each turn."""
    weight = torch.randn(300, 300, device=device)
    while far(weight):
        weight = torch.randn(300, 300, device=device)
    while (weight > 2).any() or (weight < -2).any():
        weight = torch.randn(300, 300, device=device)
    return (lambda x: x @ weight), (torch.randn(4, 300, device=device),)


def checks(device):
    """A `for` loop ends by itself: each of its questions gets the usual answer, however many there are."""
    weights = [torch.randn(4, 4, device=device) for _ in range(200)]
    for weight in weights:
        if not weight.isfinite().all():
            raise ValueError("not finite")
    if not all(weight.isfinite().all() for weight in weights):
        raise ValueError("not finite")
    return (lambda x: x @ weights[0]), (torch.randn(4, 4, device=device),)


def waits_on_the_host(device):
    """Every step asks once, about memory of the host, and no step among many may get another answer."""
    table = torch.ones(300, 300)

    def step(x):
        while True:
            x = x * 2
            if (table > 0).all():
                return x

    return step, (torch.randn(4, 300, device=device),)


def attends(device):
    """PyTorch makes the causal mask itself; the sum is read after it."""
    def step(x):
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return y * 2 if y.sum() > 0 else y

    return step, (torch.randn(2, 4, 8, 16, device=device),)


def settles(device):
    layer = torch.nn.Linear(300, 300, device=device)

    def step(x):
        while True:
            x = layer(x).tanh()
            if not x.abs().amax() > 0.5:
                return x

    return step, (torch.randn(4, 300, device=device),)


def remembers(device):
    """The scale of the first input stays; a view of it is read."""
    kept = {}

    def step(x):
        if not kept:
            kept["scale"] = x.abs().amax() / 127
        return (x / kept["scale"].view(1, 1)).round()

    return step, (torch.randn(4, 300, device=device),)


class Keeping(torch.nn.Module):
    """Step 1 makes what inputs do not decide, and memory that each step fills anew."""

    def __init__(self, device):
        super().__init__()
        self.layer = torch.nn.Linear(300, 300, device=device)
        self.made = None

    @torch.no_grad()
    def forward(self, x):
        if self.made is None:
            self.made = {
                "weight": self.layer.weight.abs().amax(),
                "ones": torch.ones_like(x),
                "zeroed": x.clone().zero_(),
                "positions": torch.arange(x.shape[1], device=x.device),
                "input": x.clone(),
                "sum": x.new_zeros(300),
                "output": torch.empty_like(x),
            }
        self.made["input"].copy_(x)
        self.made["sum"].add_(x.sum(0))
        torch.mul(x, 2, out=self.made["output"])
        total = self.layer(self.made["input"]) * self.made["weight"] + self.made["ones"] + self.made["zeroed"]
        return total + self.made["positions"] + self.made["sum"] + self.made["output"]


def keeps(device):
    return Keeping(device), (torch.randn(4, 300, device=device),)


def picks(device):
    layer = torch.nn.Linear(300, 300, device=device)
    return lambda x: layer(x)[[0, 2]] * 2, (torch.randn(4, 300, device=device),)


def picks_by_list_of_bools(device):
    def step(x):
        y = x * 2
        y[[True, False, True, False], range(2)] = 0.0
        return y

    return step, (torch.randn(4, 300, device=device),)


def escapes(device):
    layer = torch.nn.Linear(300, 300, device=device)

    def step(x):
        with torch.cuda.stream(torch.cuda.default_stream(device)):
            y = layer(x)
        return x * 2 + y

    return step, (torch.randn(4, 300, device=device),)


def picks_on_the_host(device):
    return lambda x, rows: x + len(rows[[0, 2]]), (torch.randn(4, 300, device=device), torch.arange(4))


def aligns(device):
    """PyTorch moves the lengths, whose values are known, beside scores that have none."""

    def step(scores, targets, lengths, target_lengths):
        return torch.nn.functional.ctc_loss(scores.log_softmax(-1), targets, lengths, target_lengths)

    lengths = torch.tensor([12, 12], device=device), torch.tensor([4, 3], device=device)
    return step, (torch.randn(12, 2, 5, device=device), torch.ones(2, 4, dtype=torch.int64, device=device), *lengths)
'''
STANDS_IN_THE_WAY = {
    "branches": "GS102",
    "selects": "GS202",
    "stores": "GS303",
    "counts": "GS702",
    "rebinds": "GS703",
    "settles": "GS102",
    "attends": "GS102",
    "remembers": "GS701",
    "aligns": "GS106",
    "picks": "GS302",
    "picks_by_list_of_bools": "GS302",
    "escapes": "GS604",
}
NOTHING_DOES = (
    "large",
    "positions",
    "trains",
    "truncates",
    "draws_again",
    "checks",
    "waits_on_the_host",
    "keeps",
    "picks_on_the_host",
)
Reports = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def reports(prove: Prove, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    file = tmp_path_factory.mktemp("shapes") / "model.py"
    file.write_text(TARGETS)
    names = [*STANDS_IN_THE_WAY, *NOTHING_DOES]
    with kept_server() as server:  # once it has ended, the memory of its children is known
        found = prove([f"{file}:{name}" for name in names], "sim:0", file.parent, server, shapes=True)
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("name", STANDS_IN_THE_WAY)
def test_what_stands_in_the_way_is_found(name: str, reports: Reports) -> None:
    assert reports[name]["verdict"] == "not-ready"
    errors = {finding["code"] for finding in reports[name]["findings"] if finding["level"] == "error"}
    assert STANDS_IN_THE_WAY[name] in errors


def test_work_outside_the_graph_is_not_taken_for_state_of_the_host(reports: Reports) -> None:
    assert {finding["code"] for finding in reports["escapes"]["findings"]} == {"GS604"}


@pytest.mark.parametrize("name", NOTHING_DOES)
def test_a_sound_step_is_not_accused_and_not_called_ready(name: str, reports: Reports) -> None:
    report = reports[name]
    assert report["verdict"] == "inconclusive"
    assert [finding["code"] for finding in report["findings"] if finding["level"] == "error"] == []
    assert any(limit["what"] == "values were not computed" for limit in report["limits"])
    assert report["evidence"] == "predicted"


def test_both_ways_of_a_branch_are_looked_at(reports: Reports) -> None:
    """The copy lies where the answer to the first way is no."""
    assert "GS103" in {finding["code"] for finding in reports["branches"]["findings"]}


def test_a_loop_of_the_step_is_blamed_at_the_line_that_asks(reports: Reports) -> None:
    line = TARGETS[: TARGETS.index("if not x.abs()")].count("\n") + 1
    [error] = [one for one in reports["settles"]["findings"] if one["level"] == "error"]
    assert (error["code"], error["location"]["line"]) == ("GS102", line)


def test_state_of_step_1_is_blamed_at_the_line_that_keeps_it(reports: Reports) -> None:
    line = TARGETS[: TARGETS.index('kept["scale"] = x')].count("\n") + 1
    [error] = [one for one in reports["remembers"]["findings"] if one["level"] == "error"]
    assert error["location"]["line"] == line
    [device] = reports["remembers"]["devices"]
    assert device["probes"]["replay"]["first_step"] == "fail"


def test_every_step_gets_the_same_answers(reports: Reports) -> None:
    [device] = reports["waits_on_the_host"]["devices"]
    horizon = device["probes"]["horizon"]
    assert horizon["status"] == "pass" and horizon["steps"] >= 64


def test_sizes_are_true_and_weights_take_no_memory(reports: Reports) -> None:
    weights = 48 * (8192 * 8192 + 8192) * 4
    [device] = reports["large"]["devices"]
    memory, launches = device["probes"]["memory"], device["probes"]["timing"]["launches"]
    assert weights < memory["peak_bytes"] < weights + (16 << 20)
    line = TARGETS[: TARGETS.index("return model(x)")].count("\n") + 1
    assert memory["pool_bytes"] > 0 and memory["pool"]["lines"][0]["place"].endswith(f"model.py:{line}")
    assert launches >= 49
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert 100 << 10 < children < 2 << 20, "kilobytes of the largest process"


def test_options_that_need_values_are_refused(tmp_path: Path, command: Any) -> None:
    answer: Answer = command("model.py:large", "--shapes", "--replays", "10")
    assert answer.code == 2 and "--replays" in answer.err
