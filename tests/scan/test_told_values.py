"""Values that constructors, validators, defaults, dtypes and subclasses tell, and the lines that use them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

CASES = {
    "a constructor makes attributes of the tensors that calls pass": """
        class State:
            def __init__(self, costs):
                self.costs = costs.clone()
                self.marked = self.costs.new_zeros(4, dtype=bool)

        class Model(nn.Module):
            def forward(self, x: torch.Tensor):
                state = State(x)
                if state.costs.sum() > 0:  # waits
                    x = x + 1
                return x[state.marked]  # waits
    """,
    "calls that pass tensors of the host and of the device tell nothing": """
        class State:
            def __init__(self, costs):
                self.costs = costs.clone()

        class Model(nn.Module):
            def forward(self, x):
                return State(x), State(torch.zeros(3))

            def read(self, state: State):
                return state.costs[0]
    """,
    "a loop calls the functions that its steps return": """
        def first(x):
            return second

        def second(x):
            return third if x.sum() > 0 else fourth  # waits

        def third(x):
            return fourth

        def fourth(x):
            x.max().item()  # waits

        class Model(nn.Module):
            def forward(self, x):
                step = first
                while step is not None:
                    step = step(x)
                return x
    """,
    "pydantic runs validators when a model is made": """
        class Inputs(BaseModel):
            event: torch.Tensor
            time: torch.Tensor

            @field_validator("event", mode="before")
            @classmethod
            def is_mask(cls, value: object) -> torch.Tensor:
                if not isinstance(value, torch.Tensor):
                    raise ValueError("no tensor")
                if not value.any():  # waits
                    raise ValueError("empty")
                return value.bool()

            @model_validator(mode="after")
            def is_sorted(self):
                if torch.any(self.time[:-1] > self.time[1:]):  # waits
                    raise ValueError("not sorted")
                return self

        class Model(nn.Module):
            def forward(self, x, y):
                checked = Inputs(event=x, time=y)
                return checked.time[checked.event]  # waits
    """,
    "a dataclass runs its __post_init__": """
        @dataclass
        class Bounds:
            low: torch.Tensor

            def __post_init__(self):
                if self.low.min() < 0:  # waits
                    raise ValueError("negative")

        class Model(nn.Module):
            def forward(self, x):
                return Bounds(x).low
    """,
    "a default made on the host moves to the device": """
        class Model(nn.Module):
            def forward(self, x: torch.Tensor, times: torch.Tensor = torch.tensor([0.0, 1.0])):
                times = times.to(x.device)  # waits
                return x * times[0].item()  # waits
    """,
    "a call names the dtype of its result": """
        class Model(nn.Module):
            def forward(self, x):
                one = torch.zeros(4, dtype=bool, device=x.device)
                two = x.new_zeros(4, dtype=torch.long)
                return x[one] + x[two]  # waits
    """,
    "a list of comparisons becomes a mask": """
        class Model(nn.Module):
            def forward(self, x):
                some = torch.tensor([len(row) > 2 for row in x], device=x.device)  # waits
                return x[some]  # waits
    """,
    "a distribution of numbers checks values of the device": """
        class Model(nn.Module):
            def forward(self, x):
                normal = torch.distributions.normal.Normal(0, 1)
                drawn = normal.sample((3,))
                normal.log_prob(drawn)
                return normal.cdf(x)  # waits
    """,
    "an attribute is of the objects that have it": """
        class Shape:
            pass

        class Box(Shape):
            def __init__(self, width: float):
                self.width = width

        class Ball(Shape):
            def __init__(self, radius: float):
                self.radius = radius

        class Model(nn.Module):
            def forward(self, x, shape: Shape | None = None):
                if shape is None:
                    shape = Ball(1.0)
                width = shape.width
                if not isinstance(width, torch.Tensor):
                    width = torch.tensor(width, device=x.device)  # waits
                return x * width
    """,
    "a forward beside a setup_context takes no context": """
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(x, scale):
                return x * scale if x.sum() > 0 else x  # waits

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(output)
    """,
    "a class that only names a torchtyping form is a tensor": """
        class Times(TensorType["batch", "time"]):
            pass

        class Model(nn.Module):
            def forward(self, x: torch.Tensor, times: Times):
                return x[times[:, 0] == x[:, 0]]  # waits
    """,
    "a solver of torchdiffeq waits": """
        class Model(nn.Module):
            def forward(self, x, times):
                return odeint(lambda t, y: -y, x, times)  # waits
    """,
}
HEAD = """
from dataclasses import dataclass

import torch
from pydantic import BaseModel, field_validator, model_validator
from torch import nn
from torchdiffeq import odeint
from torchtyping import TensorType
"""


@pytest.mark.parametrize("case", CASES)
def test_lines_that_use_what_is_told(tmp_path: Path, case: str) -> None:
    text = HEAD + textwrap.dedent(CASES[case])
    (tmp_path / "model.py").write_text(text, encoding="utf-8")
    told = scan_paths([tmp_path], Config(root=tmp_path)).findings
    waits = {at for at, line in enumerate(text.splitlines(), 1) if line.endswith("  # waits")}
    assert {one.location.line for one in told if one.level != "note" and one.code < "GS4"} == waits
