"""What is hot and why: roots, calls across files, marks, configuration, guards, and what a comment may silence."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.config import Config, load_config
from graphsafe.report.model import Finding, Report
from graphsafe.scan.api import scan_paths

Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Write files (`step=` is step.py) into a project; its root."""
    monkeypatch.chdir(tmp_path)

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / (name if "." in name else f"{name}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path

    return write


def scan(root: Path, *paths: str) -> Report:
    return scan_paths([root / path for path in paths] or [root], load_config(root))


def places(report: Report) -> list[tuple[str, str, int]]:
    return [(f.code, f.location.path, f.location.line) for f in report.findings if f.level != "note"]


def chain(finding: Finding) -> list[tuple[str, int, str | None]]:
    return [(site.path, site.line, site.function) for site in finding.call_chain]


MODEL = """\
import torch
from torch import nn

from engine.helpers import Sampler, pick


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sampler = Sampler()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = pick(x)
        return self.sampler.draw(y)
"""
HELPERS = """\
import torch


def pick(x):
    return best(x)


def best(values):
    return values[int(values.argmax())]


class Sampler:
    def draw(self, logits):
        return logits * self.scale(logits)

    def scale(self, logits):
        return logits.max().item()


def _unused(x: torch.Tensor):
    return x.item()
"""

ENGINE = {"engine/__init__.py": "", "engine/model.py": MODEL, "engine/helpers.py": HELPERS, "pyproject.toml": ""}


def test_hazards_behind_calls_are_found_in_other_files_with_their_chain(project: Project) -> None:
    root = project(**ENGINE)
    report = scan(root)
    assert places(report) == [("GS101", "engine/helpers.py", 9), ("GS101", "engine/helpers.py", 17)]
    first, second = report.findings
    assert chain(first) == [("engine/model.py", 13, "Model.forward"), ("engine/helpers.py", 5, "pick")]
    assert first.location.function == "best"
    assert chain(second) == [("engine/model.py", 14, "Model.forward"), ("engine/helpers.py", 14, "Sampler.draw")]


def test_a_single_file_is_read_with_the_project_that_reaches_it(project: Project) -> None:
    root = project(**ENGINE)
    alone = scan(root, "engine/helpers.py")
    assert places(alone) == [("GS101", "engine/helpers.py", 9), ("GS101", "engine/helpers.py", 17)]
    assert places(scan(root, "engine/model.py")) == []


def test_a_folder_without_init_inside_a_package_is_part_of_it(project: Project) -> None:
    nested = {name.replace("engine/", "engine/parts/"): text for name, text in ENGINE.items()}
    nested["engine/parts/model.py"] = MODEL.replace("engine.helpers", "engine.parts.helpers")
    del nested["engine/parts/__init__.py"]
    root = project(**nested, **{"engine/__init__.py": ""})
    found = [("GS101", "engine/parts/helpers.py", 9), ("GS101", "engine/parts/helpers.py", 17)]
    assert places(scan(root)) == places(scan(root, "engine/parts/helpers.py")) == found


@pytest.mark.parametrize("top", ["", "tools/"])
def test_a_script_imports_from_folders_without_init_beside_it(project: Project, top: str) -> None:
    """Python imports them as namespace packages."""
    plain = {f"{top}{name}": text for name, text in ENGINE.items() if name != "engine/__init__.py"}
    plain[f"{top}run.py"] = plain.pop(f"{top}engine/model.py")
    root = project(**{**plain, "pyproject.toml": ""})
    helpers = f"{top}engine/helpers.py"
    assert places(scan(root)) == places(scan(root, helpers)) == [("GS101", helpers, 9), ("GS101", helpers, 17)]


def test_folders_elsewhere_are_not_what_a_script_imports(project: Project) -> None:
    plain = {f"other/{name}": text for name, text in ENGINE.items() if name != "engine/__init__.py"}
    plain["run.py"] = plain.pop("other/engine/model.py")
    assert places(scan(project(**plain))) == []


def test_a_stray_init_at_the_top_of_a_project_makes_no_package_of_its_folders(project: Project) -> None:
    root = project(**{f"src/{name}": text for name, text in ENGINE.items()}, **{"__init__.py": "", "setup.py": ""})
    assert [line for _, _, line in places(scan(root))] == [9, 17]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("model", "def forward(self, x: torch.Tensor):\n        if is_npu():\n            x.item()"),
        (
            "model",
            "def forward(self, x: torch.Tensor):\n        if not _is_xpu:\n            return x\n        x.item()",
        ),
        (
            "model",
            "def forward(self, x: torch.Tensor):\n        if x.dim() > 1 and platform.is_tpu():\n            x.item()",
        ),
        (
            "model",
            "def forward(self, x):\n        self.read_npu(x)\n\n    def read_npu(self, x):\n        x.item()",
        ),
        ("xpu_model", "def forward(self, x: torch.Tensor):\n        x.item()"),
        ("ipex", "def forward(self, x: torch.Tensor):\n        x.item()"),
    ],
)
def test_what_is_for_other_hardware_than_cuda_graphs_is_not_reported(project: Project, name: str, step: str) -> None:
    source = (
        f"import torch\nfrom engine import is_npu, platform, _is_xpu\n\nclass Model(torch.nn.Module):\n    {step}\n"
    )
    assert places(scan(project(**{name: source}))) == []
    cuda = source.replace("npu", "cuda").replace("xpu", "cuda").replace("tpu", "cuda")
    assert [
        code for code, _, _ in places(scan(project(**{name.replace("xpu", "cuda").replace("ipex", "cuda"): cuda})))
    ] == ["GS101"]


READS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nonzero(x)
"""


@pytest.mark.parametrize("marker", ["ours/pyvenv.cfg", "ours/lib/python3.12/site-packages/other/__init__.py"])
def test_environments_are_not_read(project: Project, marker: str) -> None:
    packages = "ours/lib/python3.12/site-packages"
    root = project(model=READS, **{"pyproject.toml": "", marker: "", f"{packages}/other/layers.py": READS})
    assert places(scan(root)) == [("GS201", "model.py", 7)]
    assert places(scan(root, packages)) == [("GS201", f"{packages}/other/layers.py", 7)]


def test_a_package_hides_a_module_of_the_same_name_beside_it(project: Project) -> None:
    """Python does the same, for example while a module is split into a package."""
    step = "import torch, helper\nclass Step(torch.nn.Module):\n    def forward(self, x): return helper.read(x)\n"
    hidden, package = "def read(x):\n    return x.item()\n", "def read(x):\n\n    return x.tolist()\n"
    root = project(**{"step.py": step, "helper.py": hidden, "helper/__init__.py": package, "pyproject.toml": ""})
    assert places(scan(root)) == [("GS101", "helper/__init__.py", 3)]


def test_torch_is_known_even_where_its_source_lies_in_the_project(project: Project) -> None:
    source = {"torch/__init__.py": "def nonzero(x): ...\n", "torch/nn/__init__.py": "class Module: ...\n"}
    assert places(scan(project(model=READS, **source))) == [("GS201", "model.py", 7)]


def test_a_finding_of_a_root_has_no_chain_and_counts_other_roots(project: Project) -> None:
    root = project(
        model="""\
        import torch
        from torch import nn

        def read(x):
            return x.item()

        class A(nn.Module):
            def forward(self, x: torch.Tensor):
                x.tolist()
                return read(x)

        class B(nn.Module):
            def forward(self, x: torch.Tensor):
                return read(x)
        """
    )
    shared, own = scan(root).findings
    assert (len(shared.call_chain), shared.further_roots) == (1, 1)
    assert (own.call_chain, own.further_roots) == ((), 0)


def test_a_chain_names_the_line_that_calls_and_not_where_a_local_function_stands(project: Project) -> None:
    root = project(
        step="""\
        import torch
        from torch import nn
        from helper import applied

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                def local(y):
                    return y.item()

                return applied(local, x)
        """,
        helper="""\
        def applied(function, x):
            x = x + 1
            return function(x)
        """,
    )
    (finding,) = scan(root).findings
    assert chain(finding) == [("step.py", 10, "Step.forward"), ("helper.py", 3, "applied")]


@pytest.mark.parametrize(
    "source",
    [
        """\
        import torch
        class Runner:
            def capture(self, x: torch.Tensor, stream):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    self.step(x)
                return graph
            def step(self, x):
                return x * x.sum().item()
        """,
        """\
        import torch
        def step(x):
            return x * x.sum().item()
        graphed = torch.cuda.make_graphed_callables(step, (torch.ones(2),))
        """,
        """\
        from collections.abc import Callable
        from tensordict.nn import CudaGraphModule
        class Agent:
            def update(self, x):
                return x * x.sum().item()
        def train(make_agent: Callable[[], Agent]):
            agent = make_agent()
            return CudaGraphModule(agent.update)
        """,
        """\
        import torch
        def step(x):
            return x * x.sum().item()
        fast = torch.compile(step, mode="reduce-overhead")
        """,
        """\
        import torch
        @torch.compile(mode="reduce-overhead")
        def step(x):
            return x * x.sum().item()
        """,
        """\
        import torch
        def step(x):  # graphsafe: hot
            return x * x.sum().item()
        """,
        """\
        import torch
        class Engine:
            def execute_model(self, x):
                self.graph.replay()
                return x * x.sum().item()
        """,
        """\
        import torch
        from engine import AttentionImpl
        class CompressedAttentionImpl(AttentionImpl):
            def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
                kv_cache[slot_mapping] = key * key.abs().max().item()
        """,
        """\
        import torch
        from torch import nn
        class Base(nn.Module):
            def forward(self, x):
                return self.inner(x)
        class Derived(Base):
            def inner(self, x):
                return x * x.sum().item()
        """,
    ],
    ids=[
        "capture",
        "graphed callables",
        "tensordict",
        "compile",
        "decorator",
        "mark",
        "engine entry point",
        "engine entry point in a graph",
        "inherited forward",
    ],
)
def test_each_kind_of_root_is_hot(project: Project, source: str) -> None:
    found = [f for f in scan(project(step=source)).findings if f.level != "note"]
    assert [f.code for f in found] == ["GS101"]
    assert found[0].region == ("step" if "execute_model" in source else "captured")


def test_configuration_adds_and_removes_hot_code(project: Project) -> None:
    source = """\
    import torch
    from torch import nn

    def refresh(x):
        return x.item()

    class Model(nn.Module):
        def forward(self, x: torch.Tensor):
            return self.rarely(x)

        def rarely(self, x):
            return x.tolist()
    """
    root = project(
        step=source, **{"graphsafe.toml": 'hot-paths = ["step.py:refresh"]\ncold-paths = ["step:Model.rarely"]\n'}
    )
    assert places(scan(root)) == [("GS101", "step.py", 5)]


def test_what_a_configured_factory_returns_is_hot(project: Project) -> None:
    source = """\
    import torch

    def decode(x):
        return x.item()

    def build(device):
        return decode, (torch.ones(1, device=device),)
    """
    root = project(step=source, **{"graphsafe.toml": '[targets.decode]\nfactory = "step.py:build"\n'})
    assert places(scan(root)) == [("GS101", "step.py", 4)]


def test_without_hot_code_the_report_says_so(project: Project) -> None:
    report = scan(project(step="import torch\n\n\ndef f(x):\n    return x.item()\n"))
    assert (report.findings, [limit.kind for limit in report.limits]) == ((), ["no-root"])


@pytest.mark.parametrize(
    "guard",
    [
        "if not torch.cuda.is_current_stream_capturing():",
        "if torch.compiler.is_compiling():",
        "if torch.jit.is_tracing():",
        "if VERBOSE >= 2:",
        'if os.environ.get("CHECK_STEP") == "1":',
        "if self.debug:",
        "if self.inspect_time:",
        "if self.benchmark:",
        "if self.debug and x.any():",
        "if not __debug__:",
        "if CHECK:",
    ],
)
def test_what_a_guard_keeps_out_of_captures_is_a_note(project: Project, guard: str) -> None:
    source = f"""\
    import os
    import torch
    from torch import nn

    VERBOSE = int(os.environ.get("VERBOSE", "0"))

    class Switch:
        def __init__(self, name, default):
            self.name, self.default = name, default

        def get(self):
            return os.environ[self.name] == "1" if self.name in os.environ else self.default

    class Switches:
        CHECK_STEP = Switch("CHECK_STEP", False)

    switches = Switches()
    CHECK = switches.CHECK_STEP.get() and not os.path.exists("checked")

    class Model(nn.Module):
        def __init__(self, debug=False):
            super().__init__()
            self.debug = debug

        def forward(self, x: torch.Tensor):
            {guard}
                print(x.item())
            return x
    """
    report = scan(project(step=source))
    assert {f.level for f in report.findings} == {"note"}
    assert all(f.data["guard"] for f in report.findings)


@pytest.mark.parametrize("test", ["__debug__", "__debug__ and self.strict"])
def test_debug_is_on_unless_python_is_told_otherwise(project: Project, test: str) -> None:
    source = f"""\
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self, strict):
            super().__init__()
            self.strict = strict

        def forward(self, x: torch.Tensor):
            if {test}:
                assert torch.isfinite(x).all()
            return x
    """
    report = scan(project(step=source))
    assert [(f.code, f.level) for f in report.findings] == [("GS102", "error")]


def test_an_early_return_guards_what_follows(project: Project) -> None:
    source = """\
    import torch
    from torch import nn

    class Model(nn.Module):
        def forward(self, x: torch.Tensor):
            if torch.cuda.is_current_stream_capturing():
                return x
            return x * x.sum().item()
    """
    levels = {f.code: f.level for f in scan(project(step=source)).findings}
    assert levels["GS101"] == "note"


SUPPRESSED = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        a = x.item()  # graphsafe: ignore[GS101] read once a request
        b = x.tolist()  # graphsafe: ignore[GS101]
        c = x + 1  # graphsafe: ignore[GS101] not here
        text = "# graphsafe: ignore[GS101] a string is no comment"
        return x.cpu()  # graphsafe: ignore[GS1] the whole family
"""


def test_comments_suppress_and_are_held_to_account(project: Project) -> None:
    findings = scan(project(step=SUPPRESSED)).findings
    suppressed = {(f.code, f.location.line): f.suppressed.reason for f in findings if f.suppressed is not None}
    assert suppressed == {("GS101", 7): "read once a request", ("GS101", 8): None, ("GS103", 11): "the whole family"}
    assert [(f.code, f.location.line) for f in findings if f.suppressed is None] == [("GS902", 8), ("GS901", 9)]


def test_a_suppression_of_what_is_too_uncertain_to_be_shown_is_not_unused(project: Project) -> None:
    root = project(
        step="""\
        import torch
        from elsewhere import lookup


        class Model(torch.nn.Module):
            def forward(self, x):
                return x * lookup("scale").item()  # graphsafe: ignore[GS101] a scalar on the host
        """
    )
    for confidence in ("likely", "possible"):
        report = scan_paths([root], load_config(root), confidence=confidence)
        assert not [finding for finding in report.findings if finding.suppressed is None]
    assert [finding.confidence for finding in report.findings] == ["possible"]


def test_a_suppression_of_a_rule_that_did_not_run_is_not_unused(project: Project) -> None:
    root = project(step=SUPPRESSED)
    findings = scan_paths([root], Config(root=root, ignore=("GS1",))).findings
    assert [(f.code, f.location.line) for f in findings] == [("GS902", 8)]


def test_per_file_ignores_hold_for_their_files(project: Project) -> None:
    source = "import torch\n\n\ndef step(x):  # graphsafe: hot\n    return x.item()\n"
    root = project(a=source, b=source, **{"graphsafe.toml": '[per-file-ignores]\n"a.py" = ["GS1"]\n'})
    assert places(scan(root)) == [("GS101", "b.py", 5)]


def test_fingerprints_hold_when_lines_move(project: Project) -> None:
    source = "import torch\n\n\ndef step(x):  # graphsafe: hot\n    return x.item()\n"
    [before] = scan(project(step=source)).findings
    [after] = scan(project(step="# a new line\n" + source)).findings
    assert (before.fingerprint, before.location.line) != ("", after.location.line)
    assert before.fingerprint == after.fingerprint


def test_two_scans_give_the_same_report(project: Project) -> None:
    root = project(**ENGINE)
    assert scan(root).findings == scan(root).findings


def test_a_width_in_an_f_string_is_read(project: Project) -> None:
    root = project(
        step="""\
        import torch
        from torch import nn


        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                print(f"{x.shape[0]:{x.sum().item()}}")
                print(f"{x.shape[0]:{len(x)}}")
                return x
        """
    )
    assert places(scan(root)) == [("GS101", "step.py", 7)]


def test_builtin_functions_with_a_start_and_divmod_have_their_results(project: Project) -> None:
    root = project(
        step="""\
        import torch
        from torch import nn


        class Step(nn.Module):
            def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
                (i, first), (j, second) = enumerate((x, x), start=5)
                if i == 5:
                    first.item()
                if j == 1:
                    second.item()
                (k, third), (m, fourth) = enumerate((x, x), n)
                if m == 1:
                    fourth.item()
                if sum([1, 2], x) > 0:
                    return x
                quotient, rest = divmod(x, 2)
                if rest > 0:
                    return quotient
                return x
        """
    )
    assert places(scan(root)) == [
        ("GS101", "step.py", 9),
        ("GS101", "step.py", 14),
        ("GS102", "step.py", 15),
        ("GS102", "step.py", 18),
    ]
