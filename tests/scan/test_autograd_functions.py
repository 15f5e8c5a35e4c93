"""Custom autograd functions: sizes among their arguments, and what `ctx` keeps."""

from __future__ import annotations

import pytest

from .conftest import Scan


def test_sizes_are_numbers(scan: Scan) -> None:
    source = """\
        class Mix(torch.autograd.Function):
            @staticmethod
            def forward(ctx, B, T, x):
                ctx.B, ctx.T = B, T
                ctx.save_for_backward(x)
                return torch.empty((B, T), device=x.device) if B > 1 else x

            @staticmethod
            def backward(ctx, grad):
                B = ctx.B
                T = ctx.T
                return None, None, torch.empty((B, T), device=grad.device)
        """
    assert scan(source) == []


def test_saved_tensors_are_tensors(scan: Scan) -> None:
    source = """\
        class Mix(torch.autograd.Function):
            @staticmethod
            def backward(ctx, grad):
                x, mask = ctx.saved_tensors
                if mask.any():
                    grad = grad * x
                return grad
        """
    assert scan(source) == [("GS102", "if mask.any():")]


def test_a_tensor_of_sizes_that_the_forward_saves_is_on_the_host(scan: Scan) -> None:
    source = """\
        class Mix(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, count):
                sizes = torch.tensor([count, 2])
                ctx.save_for_backward(x, sizes)
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                x, sizes = ctx.saved_tensors
                count = sizes[0].item()
                return grad * x.chunk(count)[0], None
        """
    assert scan(source) == []
    assert scan(source.replace("(x, sizes)", "(x, torch.tensor(count))").replace("sizes[0]", "sizes")) == []
    read = [("GS101", "count = sizes[0].item()")]
    assert scan(source.replace("(x, sizes)", "(sizes, x)")) == read
    assert read[0] in scan(source.replace("2])", "2], device=x.device)"))


def test_what_is_computed_with_saved_tensors_is_a_tensor(scan: Scan) -> None:
    source = """\
        class Split(torch.autograd.Function):
            @staticmethod
            def backward(ctx, grad):
                offsets, bias = ctx.saved_tensors
                if bias is not None:
                    grad = grad * bias
                sizes = (offsets[1:] - offsets[:-1]).tolist()
                rows = offsets.shape[0] - 1
                return grad.view(rows, -1), sizes
        """
    assert scan(source) == [("GS101", "sizes = (offsets[1:] - offsets[:-1]).tolist()")]


def test_an_annotation_that_only_names_tensors_of_one_form(scan: Scan) -> None:
    source = """\
        class Gramian(torch.Tensor):
            "A square matrix."

        class Solve(torch.nn.Module):
            def forward(self, gramian: Gramian) -> torch.Tensor:
                return gramian.to(device=torch.device("cpu"))
        """
    assert scan(source) == [("GS103", 'return gramian.to(device=torch.device("cpu"))')]


@pytest.mark.parametrize(("base", "codes"), [("torch.autograd.Function", ["GS102"]), ("Table", [])])
def test_a_name_for_apply_gives_the_result_of_forward(scan: Scan, base: str, codes: list[str]) -> None:
    source = f"""\
        class Table:
            @staticmethod
            def apply(x):
                return len(x)

        class Double({base}):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        double = Double.apply

        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                twice = double(x)
                return twice if twice > 8 else x
        """
    assert [code for code, _ in scan(source)] == codes
