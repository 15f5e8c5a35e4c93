"""Forms of code that few projects use: `match`, `torch.cond`, old tensor types, pickling, texts of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

STEP = """\
class Step(nn.Module):
    def forward(self, x: torch.Tensor, kept: dict | None = None):
        {line}
        {body}
"""


@pytest.mark.parametrize(
    ("line", "body", "code"),
    [
        ("match x.sum():", "    case 0: return x", "GS102"),
        ("match x.shape[0]:", "    case 0: return x", None),
        ("match x.argmax():", "    case 1 | 2: return x", "GS102"),
        ("match x.argmax():", "    case 1 as n: return x", "GS102"),
        ("match x.argmax():", "    case 'a' | 'b': return x", None),
        ("match x.argmax():", "    case torch.Tensor() | None: return x", None),
        ("match x.shape[0]:", "    case 1 | 2 as n: return x * n", None),
        ("match x.argmax(), 3:", "    case (1, k): return x * k", "GS102"),
        ("match x.argmax(), 3:", "    case (k, 1): return x * k", None),
        ("match x.argmax(), 3:", "    case (1, 3, k): return x * k", None),
        ("match 3, x, x.argmax():", "    case (*k, 1): return x", "GS102"),
        ("match 3, x, x.argmax():", "    case (1, *k): return x", None),
        ("match x.argmax():", "    case (1, 2): return x", None),
        ("match [3, x.argmax()]:", "    case [k, 1]: return x", "GS102"),
        ("match [3, x.argmax()]:", "    case [1, k]: return x", None),
        ("match list(x.unbind()):", "    case [1, *k]: return x", "GS102"),
        ("match {'a': x.argmax()}:", "    case {'a': 1}: return x", "GS102"),
        ("match {'a': x.argmax(), 'b': 3}:", "    case {'b': 1}: return x", None),
        ("match x.sum():", "    case n: return x.float() if n else x", "GS102"),
        ("match x.sum():", "    case float() as n: return x.float() if n else x", None),
        ("rest = x.sum()", "match kept:\n            case {'a': a, **rest}: return x if rest else x + 1", None),
        ("rest = x.sum()", "match kept:\n            case {'a': a}: return x if rest else x + 1", "GS102"),
        ("y = torch.cond(x.sum() > 0, lambda x: x + x.item(), lambda x: x, (x,))", "return y", "GS101"),
        ("y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x, (x,))", "return y", "GS102"),
        ("y = torch.cuda.FloatTensor([1.0, 2.0])", "return x + y", "GS301"),
        ("y = torch.cuda.FloatTensor(2)", "return x + y", None),
        ("y = torch.ShortTensor([1, 2]).cuda()", "return x + y", "GS304"),
        ("y = x.type(torch.FloatTensor)", "return y", "GS103"),
        ("y = x.type(torch.cfloat)", "return y", None),
        ("y = torch.Tensor([]).to(x)", "return y", None),
        ("y = torch.Tensor([1.0]).to(x)", "return y", "GS304"),
        ("y = torch.tensor([]).long().cuda()", "return y", None),
        ("y = torch.tensor([]).sum().cuda()", "return y", "GS304"),
        ("import pickle; y = pickle.dumps(x)", "return y", "GS103"),
        ("y = torch.Tensor.item(x)", "return y", "GS101"),
        ("y = torch.Tensor.add(x, x)", "return y", None),
        ('y = "{}".format(x)', "return y", "GS104"),
        ("first, *rest = x, x, x", "return rest[0].item()", "GS101"),
        ("first, *rest, last = 1, 2, 3, x", "return last.item()", "GS101"),
        ("y = [x.sum()].index(x)", "return y", "GS102"),
        ("y = {'a': x} | {'b': x}", "return y['b'].item()", "GS101"),
        ("y = x[..., *(None,) * len(x.shape)]", "return y[*(slice(None),) * x.dim(), ...]", None),
        ("y = x[[None] * x.dim()]", "return y + x[[None, None]]", None),
        ("y = (torch.arange(4), torch.arange(4))", "return x[y]", "GS302"),
        ("y = (torch.arange(4), torch.arange(4))", "return x[..., *y]", "GS302"),
        ("y = (x.long(), 3, slice(None), None)", "return x[y], x[*y]", None),
        ("y = ([0, 1], 3)", "return x[y]", "GS302"),
        ("y = [(0, 1), (2, 3)]", "return x[:, y[0]]", "GS302"),
        ("y = torch.zeros(4, 4, device=x.device)", "y[..., 0, 0] = 2.0; return y", "GS303"),
        ("y = torch.zeros(4, 4, 1, device=x.device)", "y[..., 0, 0] = 2.0; return y", None),
        ("import pprint; pprint.pprint(x)", "return x", "GS104"),
        ("import pprint; pprint.pprint(x.shape)", "return x", None),
    ],
)
def test_what_the_host_waits_for(scan: Scan, line: str, body: str, code: str | None) -> None:
    found = {found for found, _ in scan(STEP.format(line=line, body=body))}
    assert code in found if code is not None else not found


def test_a_relative_import_leads_to_the_step_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    for name, text in {
        "pyproject.toml": "",
        "pack/__init__.py": "",
        "pack/parts.py": "def narrowed(x):\n    return x.item()\n",
        "pack/step.py": "import torch\nfrom .parts import narrowed\n\n\nclass Step(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor):\n        return narrowed(x)\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = scan_paths([tmp_path / "pack" / "parts.py"], Config(root=tmp_path)).findings
    assert [(one.code, one.location.line) for one in found] == [("GS101", 2)]


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ("x.long().unique()", True),
        ("torch.unique_consecutive(x.long())", True),
        ("x.long().unique(dim=0)", False),
        ("x.long().unique(return_inverse=self.training)", False),
    ],
)
def test_an_element_of_the_unique_values_is_an_index(scan: Scan, ids: str, found: bool) -> None:
    source = STEP.format(line=f"for one in {ids}:", body="    y = x[one]")
    assert (("GS101", "y = x[one]") in scan(source)) is found


@pytest.mark.parametrize("given", ["net, (x,)", "callables=net, sample_args=(x,)", "(net,), ((x,),)", "*nets"])
def test_new_weights_for_a_graphed_callable(tmp_path: Path, given: str) -> None:
    source = f"""\
import torch


class Runner:
    def __init__(self, net, x, nets=()):
        self.net = net
        self.run = torch.cuda.make_graphed_callables({given})

    def load(self, state):
        self.net.load_state_dict(state, assign=True)
"""
    (tmp_path / "code.py").write_text(source)
    found = [(one.code, one.location.line) for one in scan_paths([tmp_path], Config(root=tmp_path)).findings]
    assert found == ([] if given == "*nets" else [("GS711", 10)])
