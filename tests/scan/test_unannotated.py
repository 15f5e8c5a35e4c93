"""Parameters of a root without an annotation: a use that only tensors have, before or after, shows what they are."""

from __future__ import annotations

import textwrap

import pytest

from .conftest import Scan

NET = """\
class Typed(nn.Module):
    def forward(self, rows: torch.Tensor): return rows

class Used(nn.Module):
    def forward(self, rows, more=None): return rows.unsqueeze(0)

class Listed(nn.Module):
    def forward(self, rows: list[torch.Tensor]): return rows

class Open(nn.Module):
    def forward(self, rows): return rows

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.feed = nn.Sequential(nn.LayerNorm(8), nn.GELU())
        self.rnn = nn.LSTM(8, 8)
        self.any = nn.Identity()
        self.typed, self.used, self.listed, self.open = Typed(), Used(), Listed(), Open()
        self.items = nn.ModuleList([nn.Linear(8, 8)])
        self.register_buffer("ids", torch.zeros(8, dtype=torch.long))

    def forward(self, x, extra):
{step}
"""


def net(step: str) -> str:
    return NET.format(step=textwrap.indent(textwrap.dedent(step), " " * 8))


@pytest.mark.parametrize(
    ("step", "line", "code"),
    [
        ("print(x)\nreturn self.lin(x)", "print(x)", "GS104"),
        ("y = self.lin(x)\nprint(x)", "print(x)", "GS104"),
        ("x = self.feed(x)\nif x > 0: pass", "if x > 0: pass", "GS102"),
        ("print(x)\nreturn self.typed(x)", "print(x)", "GS104"),
        ("print(x)\nreturn self.used(x)", "print(x)", "GS104"),
        ("return x[[0, -1]]", "return x[[0, -1]]", "GS302"),
        ("return torch.nonzero(x > 0)", "return torch.nonzero(x > 0)", "GS201"),
        ("rows = torch.where(2 * -x == 1)", "rows = torch.where(2 * -x == 1)", "GS201"),
        ("n = self.ids.max()\nreturn extra[:n]", "return extra[:n]", "GS203"),
        ("n = self.ids.max()\nreturn [x, extra][n:]", "return [x, extra][n:]", "GS203"),
    ],
)
def test_a_use_shows_a_tensor(scan: Scan, step: str, line: str, code: str) -> None:
    assert scan(net(step)) == [(code, line)]


@pytest.mark.parametrize(
    "step",
    [
        "print(x)\nreturn self.any(x)",
        "print(x)\nreturn self.rnn(x)",
        "print(x)\nreturn self.listed(x)",
        "print(x)\nreturn self.open(x)",
        "print(x)\nx = x[0]\nreturn self.lin(x)",
        "print(x)\nfor x in extra: self.lin(x)",
        "if x > 0: extra = self.lin(extra)",
        "print(x)\nreturn x[['a', 'b']]",
        "print(x)\nreturn self.lin(extra, x)",
        "n = self.ids.shape[0]\nreturn extra[:n]",
        "print(x)\nreturn torch.arange(x + 1)",
        "print(x)\nreturn extra(x > 0)",
    ],
)
def test_no_other_use_does(scan: Scan, step: str) -> None:
    assert scan(net(step)) == []


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("f = torch.compile(lambda x: x.sum().item(), mode='reduce-overhead')", ["GS101"]),
        ("f = torch.cuda.make_graphed_callables(lambda x: x * x.sum().item(), (torch.zeros(3),))", ["GS101"]),
        (
            "f = torch.cuda.graphs.make_graphed_callables(lambda x: x * x.sum().item(), (torch.zeros(3),))",
            ["GS101"],
        ),
        ("f = torch.compile(lambda x, n=2: x.view(n, -1), mode='reduce-overhead')", []),
        ("f = torch.compile(lambda x: x.sum().item())", []),
        ("f = torch.compile(lambda text: text.split(), mode='reduce-overhead')", []),
    ],
)
def test_lambdas_that_pytorch_captures(scan: Scan, line: str, codes: list[str]) -> None:
    assert scan(line) == [(code, line) for code in codes]


HANDED_ON = """\
class Head:
    def __call__(self, boxes, scores, masks=None):
        scores = scores.cpu()
        return boxes, masks.cpu()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.lin = Head(), nn.Linear(8, 8)

    def forward(self, x):
        found = [self.lin(one) for one in x.split(4)]
        return self.head(*found)
"""


def test_a_list_of_unknown_length_fills_all_parameters_without_a_default(scan: Scan) -> None:
    found = scan(HANDED_ON)
    assert ("GS103", "scores = scores.cpu()") in found
    assert ("GS103", "return boxes, masks.cpu()") not in found
