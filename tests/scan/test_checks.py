"""The whole-program checks where several places decide together: order, classes, guards, and who calls whom.

What one line shows by itself is in the cases of the rule files.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.report.model import Confidence, Finding
from graphsafe.scan.api import scan_paths

HEAD = "import torch\nfrom torch import nn\n\n"


@pytest.fixture
def scan(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Scan one source as a project of its own; the findings of one code."""

    def run(code: str, source: str, confidence: Confidence = "likely") -> list[Finding]:
        path = tmp_path / "step.py"
        path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
        report = scan_paths([path], Config(root=tmp_path), confidence=confidence)
        return [finding for finding in report.findings if finding.code == code]

    return run


# order


def test_a_replaced_tensor_that_a_later_step_reads_is_an_error_and_one_that_none_reads_a_warning(scan):
    source = """
        class Step(nn.Module):
            def __init__(self, dim: int):
                super().__init__()
                self.register_buffer("state", torch.zeros(dim))
                self.register_buffer("last", torch.zeros(dim))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = x + self.state
                self.state = x * 2
                self.last = y * 2
                return y
    """
    assert {finding.message.split("`")[1]: finding.level for finding in scan("GS703", source)} == {
        "self.state": "error",
        "self.last": "warning",
    }


def test_a_flag_that_is_cleared_before_it_is_read_says_the_same_in_each_step(scan):
    source = """
        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = True

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.first = False
                return x if self.first else x * 2
    """
    assert scan("GS702", source) == []


def test_a_lazy_value_that_is_refreshed_in_place_is_fresh(scan):
    source = """
        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.lengths = None

            def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
                if self.lengths is None:
                    self.lengths = lengths.clone()
                self.lengths.copy_(lengths)
                return x * self.lengths
    """
    assert scan("GS701", source) == []


def test_a_lazy_value_of_a_buffer_matters_where_that_buffer_changes(scan):
    source = """
        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("lengths", torch.zeros(4))
                self.register_buffer("scale", torch.ones(4))
                self.starts = None
                self.factor = None

            def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
                self.lengths.copy_(lengths)
                if self.starts is None:
                    self.starts = self.lengths.cumsum(0)
                if self.factor is None:
                    self.factor = self.scale * 2
                return x * self.starts * self.factor
    """
    assert [finding.level for finding in scan("GS701", source)] == ["warning", "note"]


# classes


def test_a_counter_of_one_class_is_not_the_number_of_another(scan):
    source = """
        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.count += 1
                return x * 2


        class Scaled(nn.Module):
            def __init__(self, count: int):
                super().__init__()
                self.count = count

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x * self.count
    """
    assert scan("GS702", source) == []


def test_a_counter_of_the_base_class_that_a_subclass_uses_is_one_number(scan):
    source = """
        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def advance(self):
                self.count += 1


        class Scaled(Counted):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.advance()
                return x * self.count
    """
    assert len(scan("GS702", source)) == 1


def test_a_declaration_answers_for_its_own_class_not_for_its_siblings(scan):
    source = """
        class Support:
            NEVER = 0
            ALWAYS = 1


        class Base(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.attend(x)


        class Clean(Base):
            _cudagraph_support = Support.ALWAYS

            def attend(self, x):
                return x * 2


        class Reads(Base):
            _cudagraph_support = Support.ALWAYS

            def attend(self, x):
                return x * x.sum().item()
    """
    assert [finding.location.function for finding in scan("GS801", source)] == ["Reads"]


def test_a_builders_declaration_is_held_against_the_implementation_that_its_backend_names(scan):
    source = """
        class Support:
            ALWAYS = 1


        class Builder:
            _cudagraph_support = Support.ALWAYS

            def build(self, lengths: torch.Tensor) -> int:
                return int(lengths.max())


        class Implementation(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x[x.sum(-1) > 0]


        class Backend:
            @staticmethod
            def get_builder_cls():
                return Builder

            @staticmethod
            def get_impl_cls():
                return Implementation
    """
    [finding] = scan("GS801", source)
    assert finding.data["codes"] == "GS202"


# guards and callers


def test_state_that_captures_never_change_is_a_note(scan):
    source = """
        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if not torch.cuda.is_current_stream_capturing():
                    self.count += 1
                return x * self.count
    """
    assert [finding.level for finding in scan("GS702", source)] == ["note"]


def test_a_counter_that_only_decides_what_is_logged_is_no_fault(scan):
    source = """
        import logging

        logger = logging.getLogger(__name__)


        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.count += 1
                if self.count % 100 == 0:
                    logger.debug("a hundred more")
                return x * 2
    """
    assert scan("GS702", source) == []


def test_what_an_engine_does_around_its_graphs_is_only_perhaps_replayed(scan):
    source = """
        class Engine:
            def __init__(self):
                self.offset = 0

            def execute_model(self, x: torch.Tensor) -> torch.Tensor:
                self.offset += 1
                self.graph.replay()
                return x + self.offset
    """
    assert scan("GS702", source) == []
    assert [finding.confidence for finding in scan("GS702", source, "possible")] == ["possible"]


def test_a_side_stream_may_be_joined_by_an_event_in_another_method(scan):
    source = """
        class Prefetch(nn.Module):
            def __init__(self):
                super().__init__()
                self.side = torch.cuda.Stream()
                self.done = torch.cuda.Event()

            def start(self, x):
                self.side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self.side):
                    self.ready = x * 2
                    self.done.record()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.start(x)
                self.done.wait()
                return self.ready + x
    """
    assert scan("GS603", source) == []


@pytest.mark.parametrize("end", ["pass", "torch.cuda.current_stream().wait_stream(self.side)"])
def test_a_stream_that_is_made_only_where_cuda_is_available(scan, end: str):
    source = """
        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.side = torch.cuda.Stream() if torch.cuda.is_available() else None

            def forward(self, x: torch.Tensor):
                self.side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self.side):
                    y = x * 2
                {end}
                return y
    """
    assert len(scan("GS603", source.replace("{end}", end))) == (end == "pass")


# capture and replay


def test_an_input_bound_for_a_new_capture_or_on_another_way_is_not_rebound(scan):
    source = """
        class Runner:
            def __init__(self, model):
                self.model = model
                self.graph = None

            def capture(self, x, stream):
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=stream):
                    self.out = self.model(self.x)

            def run(self, x, stream):
                if self.graph is None:
                    self.x = x
                    self.capture(x, stream)
                else:
                    self.x.copy_(x)
                    self.graph.replay()
                return self.out.clone()
    """
    assert scan("GS707", source) == []


def test_a_timed_loop_of_replays_may_wait_for_the_device(scan):
    source = """
        import time


        def measure(graph: torch.cuda.CUDAGraph, count: int) -> list[float]:
            times = []
            for _ in range(count):
                start = time.perf_counter()
                graph.replay()
                torch.cuda.synchronize()
                times.append(time.perf_counter() - start)
            return times
    """
    assert scan("GS610", source) == []


def test_a_warm_up_by_the_caller_is_believed(scan):
    source = """
        class Runner:
            def __init__(self, model):
                self.model = model

            def capture(self, x, stream):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    self.out = self.model(x)
                return graph
    """
    assert scan("GS606", source) == []
    assert [finding.confidence for finding in scan("GS606", source, "possible")] == ["possible"]


# random numbers


def test_a_draw_that_only_training_looks_at_is_a_note(scan):
    source = """
        class Decoder(nn.Module):
            def __init__(self, dim: int, layerdrop: float):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(2))
                self.layerdrop = layerdrop

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                for layer in self.layers:
                    draw = torch.rand([])
                    if self.training and draw < self.layerdrop:
                        continue
                    x = layer(x)
                return x
    """
    assert [finding.level for finding in scan("GS504", source)] == ["note"]


def test_a_table_drawn_once_is_no_reseeding_of_the_step(scan):
    source = """
        class Signs(nn.Module):
            def __init__(self):
                super().__init__()
                self.signs = None

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if self.signs is None:
                    torch.manual_seed(3)
                    self.signs = torch.randn(x.shape[-1], device=x.device)
                return x * self.signs
    """
    assert [finding.level for finding in scan("GS503", source)] == ["note"]


def test_the_fields_of_a_result_are_no_state(scan):
    source = """
        class Output:
            def __init__(self, pooled: torch.Tensor):
                self.pooled = pooled


        class Encoder(nn.Module):
            def encode(self, x):
                return Output(x.mean(0))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                output = self.encode(x)
                output.pooled = output.pooled * 2
                return output.pooled
    """
    assert scan("GS703", source) == []


def test_what_is_put_back_does_not_change_from_step_to_step(scan):
    source = """
        class Step(nn.Module):
            def __init__(self, scale: float):
                super().__init__()
                self.scale = scale

            def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
                was = self.scale
                self.scale = scale
                try:
                    return self.scaled(x)
                finally:
                    self.scale = was

            def scaled(self, x):
                return x * self.scale
    """
    assert scan("GS702", source) == []
    assert len(scan("GS702", source.replace("was = self.scale", "was = self.scale + 1"))) == 1


def test_what_an_unknown_call_makes_first_may_be_no_tensor(scan):
    source = """
        import kernels

        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.kernel = None

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if self.kernel is None:
                    self.kernel = kernels.compiled_for(x)
                return self.kernel(x)
    """
    assert scan("GS701", source) == []
    assert [finding.confidence for finding in scan("GS701", source, "possible")] == ["possible"]


@pytest.mark.parametrize(
    ("device", "launcher", "expected"),
    [
        ("cuda", "", ["GS604"]),
        ("cuda", "torch.cuda.set_device(rank)", []),
        ("cuda:0", "torch.cuda.set_device(rank)", ["GS604"]),
    ],
)
def test_the_current_device_is_the_modules_where_the_project_chooses_it(
    tmp_path: Path, device: str, launcher: str, expected: list[str]
) -> None:
    package = tmp_path / "engine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "launch.py").write_text(f"import torch\n\ndef start(rank):\n    {launcher or 'pass'}\n")
    (package / "model.py").write_text(
        "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        f"        return x + torch.ones(3, device='{device}')\n"
    )
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert [f.code for f in report.findings if f.level != "note"] == expected


def test_a_read_names_the_argument_that_is_read_and_not_the_receiver(scan):
    source = """
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, limit: torch.Tensor):
                return x.new_full((2, 2), limit.sum()), x.new_full((2, 2), 3.0)
    """
    (finding,) = scan("GS101", source)
    assert finding.message == "`x.new_full((2, 2), limit.sum())` makes the host read a device tensor"


@pytest.mark.parametrize(("token", "confidence"), [("ids.cpu()", "possible"), ("ids", "likely")])
def test_a_join_of_host_tensors_shows_where_the_others_are(scan, token: str, confidence: str):
    source = f"""
        class Stream(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = torch.zeros(1, 0, dtype=torch.long)

            def forward(self, prompt: torch.Tensor, ids: torch.Tensor):
                self.tokens = torch.cat([self.tokens, prompt], -1)
                self.append({token})
                return self.tokens

            def append(self, token):
                self.tokens = torch.cat([self.tokens, token], -1)
    """
    found = scan("GS402", source, "possible")
    assert {finding.confidence for finding in found} == {confidence}


def test_a_helper_that_gets_tensors_of_several_types_is_told_of_none(scan):
    source = """
        def home(given):
            return given.cpu()

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor):
                return home(x > 0), home(x), (y > 0).cpu()
    """
    (of_helper, own) = scan("GS103", source)
    assert of_helper.message == "`given.cpu()` makes the host wait for a copy of `given`, a device tensor"
    assert own.message == "`(y > 0).cpu()` makes the host wait for a copy of a boolean device tensor"


def test_a_helper_copies_a_tensor_that_its_caller_built_from_values(scan):
    source = """
        def moved(given, like):
            return given.to(like.device)

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, sizes: list[int]):
                here = torch.tensor(sizes).to(x.device)
                return here + moved(torch.tensor(sizes), x)
    """
    assert [finding.message.split("`")[1] for finding in scan("GS304", source)] == ["given.to(like.device)"]
    assert [finding.message.split("`")[1] for finding in scan("GS301", source)] == ["torch.tensor(sizes).to(x.device)"]


@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        ("[slice(None) for _ in x.shape]", []),
        ("[slice(0, 2), torch.arange(3)]", ["GS302"]),
        ("[n for n in range(x.dim())]", ["GS302"]),
    ],
    ids="slices tensor numbers".split(),
)
def test_a_list_with_slices_is_a_tuple(scan, parts: str, codes: list[str]) -> None:
    source = f"""
        class Cut(nn.Module):
            def forward(self, x: torch.Tensor):
                parts = {parts}
                return x[parts]
    """
    assert [finding.code for finding in scan("GS302", source)] == codes


@pytest.mark.parametrize(("value", "count"), [("True", 1), ("False", 0)])
def test_a_file_may_turn_off_the_checks_of_all_distributions(scan, value: str, count: int) -> None:
    source = f"""
        torch.distributions.Normal.set_default_validate_args({value})

        class Policy(nn.Module):
            def forward(self, mean: torch.Tensor, deviation: torch.Tensor, action: torch.Tensor):
                return torch.distributions.Normal(mean, deviation).log_prob(action)
    """
    assert len(scan("GS106", source)) == count


@pytest.mark.parametrize(("value", "count"), [("True", 1), ("False", 0), ("settings.checks", 0)])
def test_a_package_may_turn_off_the_checks_of_all_distributions(tmp_path: Path, value: str, count: int) -> None:
    package = tmp_path / "agent"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "cli.py").write_text(
        "from torch.distributions import Distribution\n\ndef main(settings):\n"
        f"    Distribution.set_default_validate_args({value})\n"
    )
    policy = (
        "import torch\nfrom torch import nn\n\nclass Policy(nn.Module):\n"
        "    def forward(self, mean: torch.Tensor, deviation: torch.Tensor, action: torch.Tensor):\n"
        "        return torch.distributions.Normal(mean, deviation).log_prob(action)\n"
    )
    (package / "policy.py").write_text(policy)
    (tmp_path / "script.py").write_text(policy)
    found = [f for f in scan_paths([tmp_path], Config(root=tmp_path)).findings if f.code == "GS106"]
    assert sum(f.location.path.endswith("policy.py") for f in found) == count
    assert sum(f.location.path.endswith("script.py") for f in found) == 1


@pytest.mark.parametrize(("made", "count"), [("logits=x", 0), ("logits=x, validate_args=True", 1)])
def test_a_distribution_inside_another_one_checks_its_values_by_default(scan, made: str, count: int) -> None:
    source = f"""
        {{setting}}
        class Policy(nn.Module):
            def forward(self, x: torch.Tensor, action: torch.Tensor):
                return torch.distributions.OneHotCategorical({made}).log_prob(action)
    """
    off = "torch.distributions.Distribution.set_default_validate_args(False)\n"
    assert len(scan("GS106", source.format(setting=off))) == count
    assert len(scan("GS106", source.format(setting="").replace("=True", "=False"))) == 1


@pytest.mark.parametrize(("folder", "count"), [("", 0), ("examples", 1)])
def test_a_script_turns_off_the_checks_of_the_modules_below_it(tmp_path: Path, folder: str, count: int) -> None:
    package = tmp_path / "agent"
    package.mkdir()
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "train.py").write_text(
        "from torch.distributions import Distribution\n\nDistribution.set_default_validate_args(False)\n"
    )
    (package / "__init__.py").write_text("")
    (package / "policy.py").write_text(
        "import torch\nfrom torch import nn\n\nclass Policy(nn.Module):\n"
        "    def forward(self, mean: torch.Tensor, deviation: torch.Tensor, action: torch.Tensor):\n"
        "        return torch.distributions.Normal(mean, deviation).log_prob(action)\n"
    )
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert sum(finding.code == "GS106" for finding in findings) == count


def test_a_message_describes_a_tensor_before_it_is_converted(scan) -> None:
    source = """
        class Pairs(nn.Module):
            def forward(self, mask: torch.BoolTensor):
                return mask * (1.0 - torch.eye(4, dtype=torch.float)).to(mask)
    """
    assert [finding.message.endswith("copy of a host tensor") for finding in scan("GS304", source)] == [True]
