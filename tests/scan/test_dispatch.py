"""Which function a call means where its text does not say: overrides, registered operators, summarised libraries."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

Scan = Callable[..., list[tuple[str, int]]]


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    """Scan one source as a project of its own: code and line of each finding above note."""

    def run(source: str, *packs: Path) -> list[tuple[str, int]]:
        (tmp_path / "step.py").write_text(textwrap.dedent(source), encoding="utf-8")
        report = scan_paths([tmp_path / "step.py"], Config(root=tmp_path, rule_packs=packs))
        return [(f.code, f.location.line) for f in report.findings if f.level != "note"]

    return run


def test_a_call_on_a_declared_class_may_run_what_subclasses_make_of_it(scan: Scan) -> None:
    assert scan(
        """\
        import torch
        from torch import nn

        class Backend:
            def run(self, x):
                raise NotImplementedError

        class Eager(Backend):
            def run(self, x):
                return x * x.sum().item()

        class Layer(nn.Module):
            def __init__(self, backend: Backend):
                super().__init__()
                self.backend = backend

            def forward(self, x: torch.Tensor):
                return self.backend.run(x)
        """
    ) == [("GS101", 10)]


def test_every_subclass_is_read_as_what_the_call_may_run(tmp_path: Path) -> None:
    backends = "".join(f"class B{i}(Backend):\n    def run(self, x):\n        return x.item()\n\n" for i in range(9))
    source = f"""\
import torch

class Backend:
    def run(self, x): ...

{backends}
class Layer(torch.nn.Module):
    def __init__(self, backend: Backend):
        super().__init__()
        self.backend = backend

    def forward(self, x: torch.Tensor):
        return self.backend.run(x)
"""
    (tmp_path / "step.py").write_text(source, encoding="utf-8")
    report = scan_paths([tmp_path / "step.py"], Config(root=tmp_path))
    assert [[site.function for site in f.call_chain] for f in report.findings] == [["Layer.forward"]] * 9


def test_a_registered_operator_runs_the_projects_function(scan: Scan) -> None:
    assert scan(
        """\
        import torch
        from torch import nn

        @torch.library.custom_op("engine::scale", mutates_args=())
        def scale(x: torch.Tensor) -> torch.Tensor:
            return x * x.max().item()

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.ops.engine.scale(x)
        """
    ) == [("GS101", 6)]


LIBRARY = """\
import fastlib
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.planner = fastlib.Planner()

    def forward(self, x: torch.Tensor):
        self.planner.plan(x)
        return fastlib.lengths(x)[0].item()
"""


def test_a_pack_says_what_a_library_does(scan: Scan, tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "libraries.yaml").write_text(
        textwrap.dedent(
            """\
            fastlib:
              - {names: [fastlib.Planner], returns: object}
              - {names: [fastlib.Planner.plan], waits: true, returns: nothing}
              - {names: [fastlib.lengths], returns: host-tensor}
            """
        ),
        encoding="utf-8",
    )
    assert scan(LIBRARY) == [("GS101", 13)]
    assert scan(LIBRARY, pack) == [("GS106", 12)]


def test_a_model_of_a_library_may_return_a_tuple(scan: Scan, tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "libraries.yaml").write_text(
        "fastlib:\n  - {names: [fastlib.split], returns: [host-tensor, [number, tensor]]}\n", encoding="utf-8"
    )
    source = """\
import fastlib
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x: torch.Tensor):
        lengths, (count, scores) = fastlib.split(x)
        return lengths.tolist(), int(count), scores.tolist()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x: torch.Tensor):
        out, (state, cell) = self.rnn(x)
        return out, state, cell.sum().item()
"""
    assert scan(source, pack) == [("GS101", 9), ("GS101", 19)]


def test_planning_of_flashinfer_waits(scan: Scan) -> None:
    source = LIBRARY.replace("fastlib.Planner()", "fastlib.BatchDecodeWithPagedKVCacheWrapper()")
    assert scan(source.replace("import fastlib", "import flashinfer as fastlib").replace("[0].item()", "")) == [
        ("GS106", 12)
    ]


def test_to_call_an_object_of_a_library_is_to_call_its_forward(scan: Scan) -> None:
    source = """\
import torch
from torch import nn
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder


class Step(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tower = Qwen2_5OmniAudioEncoder(config)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        return self.tower(x, feature_lens=lengths).last_hidden_state
"""
    assert scan(source) == [("GS106", 12)]
    assert scan(source.replace("OmniAudioEncoder", "OmniTextEncoder")) == []


def test_a_test_of_a_type_does_not_say_that_callers_pass_this_type(scan: Scan) -> None:
    source = """\
        import torch
        from torch import nn

        class Positions(nn.Module):
            def forward(self, x: torch.Tensor, offset: int | torch.Tensor = 0):
                if isinstance(offset, torch.Tensor):
                    return x[:, offset : offset + 4]
                return x[:, offset]
    """
    assert scan(source) == []
    assert scan(source.replace("int | torch.Tensor = 0", "torch.Tensor")) == [("GS203", 7)]


def test_a_container_behind_or_says_that_the_value_is_no_tensor(scan: Scan) -> None:
    source = """\
        import torch
        from torch import nn

        class Copy(nn.Module):
            def forward(self, src: torch.Tensor, rows):
                kept = src.index_select(0, rows)
                rows = rows or tuple(slice(0, n) for n in src.shape)
                return src[rows], kept
    """
    assert scan(source) == []
    assert scan(source.replace("tuple(slice(0, n) for n in src.shape)", "self.rows")) == [("GS102", 7)]


def test_only_a_module_that_accepts_the_arguments_is_called(scan: Scan) -> None:
    assert (
        scan(
            """\
        import torch
        from torch import nn

        class Block(nn.Module):
            def forward(self, x, sizes, height):
                return x.view(-1, height)

        class BlockWithClass(nn.Module):
            def forward(self, x, cls, sizes, height):
                return x.view(-1, height), cls

        class Model(nn.Module):
            def __init__(self, use_cls):
                super().__init__()
                self.use_cls = use_cls
                self.block = BlockWithClass() if use_cls else Block()

            def forward(self, x):
                sizes = torch.ones(4, device=x.device)
                if self.use_cls:
                    x, cls = self.block(x, x[:1], sizes, x.shape[0])
                else:
                    x = self.block(x, sizes, x.shape[0])
                return x
        """
        )
        == []
    )
