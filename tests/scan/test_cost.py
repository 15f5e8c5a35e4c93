"""The work of a scan stays in proportion to the code: an inherited method is not read again for each subclass."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths
from graphsafe.scan.execution.budget import CallBudget

BASE = """\
import torch
from torch import nn


class Metric(nn.Module):
    def reset(self):
        self.total = self.start()

    def start(self):
        return torch.zeros(3, device="cuda")

    def forward(self, x: torch.Tensor):
        return self.update(x) if self.total.sum() > 0 else x
"""
HEIR = """

class Metric{0}(Metric):
    def update(self, x):
        return x + {0}
"""


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[CallBudget]:
    """Return the budgets of the scans that follow."""
    made: list[CallBudget] = []
    first = CallBudget.__init__

    def init(self: CallBudget, *given: object) -> None:
        first(self, *given)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(CallBudget, "__init__", init)
    return made


def test_a_method_that_assigns_attributes_is_read_once_for_all_that_inherit_it(
    tmp_path: Path, budgets: list[CallBudget]
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    codes = []
    for count in (1, 21):
        (tmp_path / "model.py").write_text(BASE + "".join(map(HEIR.format, range(count))))
        codes.append({f.code for f in scan_paths([tmp_path], Config(root=tmp_path)).findings})
    one, many = (budget.readings for budget in budgets)
    assert codes[0] == codes[1] == {"GS102"}
    # Each further class costs two hot readings: of `forward` and of `update`.
    assert many - one <= 20 * 2
