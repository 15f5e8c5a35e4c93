"""Branches for versions of PyTorch that graphsafe does not support never run."""

from __future__ import annotations

import pytest

from .conftest import Scan

STEP = """\
from packaging import version
from mmcv.utils import TORCH_VERSION, digit_version

{before}

class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        if {test}:
            x.tolist()
        else:
            x.cpu()
        return x
"""


def lines(scan: Scan, test: str, before: str = "") -> list[str]:
    return [line for _, line in scan(STEP.format(test=test, before=before))]


@pytest.mark.parametrize(
    "test",
    [
        'version.parse(torch.__version__) >= version.parse("1.8")',
        'version.parse(torch.__version__.split("+")[0]) > version.parse("2.5.1")',
        'version.parse(torch.__version__) >= version.parse("2.6.0")',
        'digit_version(TORCH_VERSION) >= digit_version("1.8")',
        'torch.__version__ >= "1.8"',
        'not torch.__version__ < "1.8.0"',
        'tuple(map(int, torch.__version__.split(".")[:2])) >= (1, 8)',
        'tuple(int(part) for part in torch.__version__.split(".")[:2]) != (1, 8)',
        'int(torch.__version__.split(".")[0]) >= 2',
        "version.parse(torch.__version__).major > 1",
        "version.parse(torch.__version__).release[:2] >= (2, 6)",
        "TORCH_VERSION_AT_LEAST_2_5",
        "is_torch_greater_or_equal_than_2_1()",
    ],
)
def test_a_test_for_an_older_version_has_one_result(scan: Scan, test: str) -> None:
    assert lines(scan, test) == ["x.tolist()"]


@pytest.mark.parametrize(
    "before",
    ['NEW = version.parse(torch.__version__) >= version.parse("2.0")', 'NEW = not torch.__version__.startswith("1.")'],
)
def test_a_global_name_stands_for_the_test(scan: Scan, before: str) -> None:
    expected = ["x.tolist()"] if "parse" in before else ["x.tolist()", "x.cpu()"]
    assert lines(scan, "NEW", before) == expected


def test_a_global_name_stands_for_the_version(scan: Scan) -> None:
    assert lines(scan, 'TORCH < version.parse("2.1")', "TORCH = version.parse(torch.__version__)") == ["x.cpu()"]


@pytest.mark.parametrize(
    "test",
    [
        'version.parse(torch.__version__) >= version.parse("2.8")',
        'version.parse(torch.__version__) >= version.parse("2.6.1")',
        'torch.__version__ >= "2.5"',
        'version.parse(np.__version__) >= version.parse("1.8")',
        'version.parse(torch.__version__) == version.parse("2.6")',
        'int(torch.__version__.split(".")[1]) >= 8',
        "int(torch.__version__[0]) >= 2",
        "TORCH_VERSION_AT_LEAST_2_8",
    ],
)
def test_other_tests_stay_open(scan: Scan, test: str) -> None:
    assert lines(scan, test) == ["x.tolist()", "x.cpu()"]
