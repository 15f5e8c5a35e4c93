"""The pytest plugin, in test runs of its own, on the simulated device.

Runs within this process would import modules anew, and leave other tests with two classes of one name.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cloudpickle")

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.child

FACTORIES = """
import pytest, torch

@pytest.mark.graphsafe(ready=True, buckets={"batch": [1, 8]})
def build_decode(device, batch):
    model = torch.nn.Linear(4, 4).to(device)
    return model, (torch.ones(batch, 4, device=device),)

@pytest.mark.graphsafe(ready=True)
def test_prefill(device):
    def step(x):
        total = x.sum()
        if total > 0:
            x = x + 1
        return x
    return step, (torch.ones(4, device=device),)

@pytest.mark.graphsafe(ready=False, devices="sim:1")
def test_known(device):
    return (lambda x: x * x.sum().item()), (torch.ones(4, device=device),)
"""
STEPS = """
import graphsafe, pytest, torch

@pytest.fixture(scope="module")
def weights():
    return torch.ones(4, device="cuda")

def test_reads(weights):
    assert weights.device.type == "cuda" and torch.cuda.is_available()
    with graphsafe.forbid():
        y = weights * 2
        if y.sum() > 0:
            y = y + 1
        y.max().item()

def test_keeps_to_it(weights):
    with graphsafe.forbid(launches=1):
        weights.mul_(2)

def test_an_open_capture_harms_no_other(weights):
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin()
    assert torch.cuda.is_available()

def test_after_it(weights):
    weights.sum().item()
"""


@pytest.fixture(autouse=True)
def plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loaded also where graphsafe was installed before it had the plugin."""
    if "graphsafe" not in entry_points(group="pytest11").names:
        monkeypatch.setenv("PYTEST_ADDOPTS", "-p graphsafe.pytest_plugin")
    pytester.path.joinpath("pyproject.toml").write_text("")
    yield


@pytest.mark.slow
def test_factories_are_proven_and_failures_read_like_reports(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_model=FACTORIES)
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ test_prefill _*",
            "*test_model.py:test_prefill is not-ready",
            "GS102 error: `total > 0` makes the host branch on a device value",
            "*--> test_model.py:12:* in test_prefill.step*",
            "12 |         if total > 0:",
            "*fix: *",
            "graphsafe.lock: 3 targets written",
            "FAILED test_model.py::test_prefill - *",
        ]
    )
    assert "pytest_plugin.py" not in result.stdout.str()
    assert "assert_ready" not in result.stdout.str()
    lock = (pytester.path / "graphsafe.lock").read_text()
    assert lock.count('[[target."test_model.py::build_decode"]]') == 2
    assert 'bucket = "batch=8"' in lock and "waits = 1" in lock

    # What is locked may not become worse, though the test does not ask for ready.
    worse = FACTORIES.replace("x * x.sum().item()", "x * x.sum().item() + x.max().item()")
    pytester.makepyfile(test_model=worse)
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "-k", "known or decode")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["test_known: 1 ? 2 waits in an eager step; test_model.py:19"])
    assert (pytester.path / "graphsafe.lock").read_text() == lock


def test_the_test_process_plays_the_device(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_steps=STEPS)
    result = pytester.runpytest_subprocess("--graphsafe-device=sim")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E   *Forbidden: graphsafe.forbid: the block at test_steps.py:9 has 2 forbidden operations on 2 lines",
            "E*GS102 error: `y.sum() > 0` makes the host branch on a device value",
            "E*11 |         if y.sum() > 0:",
            "E*GS101 error: `y.max().item()` makes the host read a device value",
        ]
    )
    assert "regions.py" not in result.stdout.str()
    assert torch.cuda.is_available() == bool(torch.cuda.device_count())


def test_a_capture_that_fails_in_a_test_ends_at_the_users_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch

        def test_capture():
            x = torch.ones(4, device="cuda")
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                x.sum().item()
        """
    )
    result = pytester.runpytest_subprocess("--graphsafe-device=sim")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([">*x.sum().item()", "E*operation not permitted when stream is capturing"])
    assert "device/sim/" not in result.stdout.str()


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_an_option_only_tests_that_ask_for_a_device_get_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, torch

        def test_nobody_asked():
            assert not torch.cuda.is_available()

        def test_fixture(graphsafe_device):
            assert torch.ones(2, device=graphsafe_device).is_cuda

        @pytest.mark.graphsafe
        def test_mark():
            assert torch.ones(2, device="cuda").is_cuda
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=3)
    result = pytester.runpytest_subprocess("--graphsafe-device=cuda:3", "-k", "fixture")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--graphsafe-device cuda:3: this machine has 0 GPUs*"])
    assert pytester.runpytest_subprocess("--graphsafe-device=tpu").ret == pytest.ExitCode.USAGE_ERROR


def test_collecting_imports_no_torch_and_marked_imports_are_collected_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        model="""
        import pytest

        @pytest.mark.graphsafe(ready=True)
        def build(device):
            import torch
            return torch.nn.Linear(2, 2).to(device), (torch.ones(2, 2, device=device),)
        """,
        test_model="""
        import sys
        from model import build
        test_decode = build

        def test_plain():
            assert "torch" not in sys.modules
        """,
    )
    result = pytester.runpytest_subprocess("--collect-only", "-q", "test_model.py")
    assert [line for line in result.outlines if "::" in line] == [
        "test_model.py::test_decode",
        "test_model.py::test_plain",
    ]
    pytester.runpytest_subprocess("-k", "plain", "--strict-markers").assert_outcomes(passed=1, deselected=1)


@pytest.mark.slow
def test_a_factory_that_cannot_be_run_fails_and_leaves_the_lock_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_model="""
        import pytest, torch

        @pytest.mark.graphsafe(ready=False)
        def build_broken(device):
            raise ValueError("no weights here")

        @pytest.mark.parametrize("n", [1, 2])
        @pytest.mark.graphsafe(ready=True)
        def build_sized(device, n):
            return (lambda x: x * 2), (torch.ones(n, device=device),)

        @pytest.mark.graphsafe(ready=True)
        def build_of(device, layer):
            return layer, (torch.ones(2, device=device),)
        """
    )
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*no weights here*",
            "build_sized: parametrize does not work on a factory; give its values as buckets*",
            "build_of: a factory gets no fixtures; make layer in it, or give buckets*",
        ]
    )
    assert not (pytester.path / "graphsafe.lock").exists()
    if torch.cuda.device_count() < 6:
        pytester.makepyfile(test_model=FACTORIES)
        result = pytester.runpytest_subprocess("--graphsafe-device=cuda:6", "-k", "known")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*this machine has *"])


@pytest.mark.slow
def test_a_factory_is_proven_and_compared_with_its_entry_in_the_lock(pytester: pytest.Pytester) -> None:
    text = """
        import pytest, torch

        class TestDecode:
            @pytest.mark.graphsafe(ready=True)
            def build(self, device):
                return (lambda x: x * 2), (torch.ones(4, device=device),)
        """
    gone = '[[target."test_model.py::build_gone"]]\ndevice = "sim:0"\nverdict = "ready"\nnodes = {}\n'
    lock = pytester.path / "graphsafe.lock"
    lock.write_text(f"version = 1\n{gone}")
    pytester.makepyfile(test_model=text)
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["graphsafe.lock: test_model.py::build_gone is no longer a test, *entry is removed"])
    assert lock.read_text().count("[[target.") == 1 and "TestDecode::build" in lock.read_text()
    lock.write_text(f"{lock.read_text()}\n{gone}")
    pytester.makepyfile(test_model=text.replace("x * 2)", "x * 2 + 1)"))
    result = pytester.runpytest_subprocess("--graphsafe-device=sim")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "build: 1 ? 2 kernel nodes",
            "graphsafe.lock: test_model.py::build_gone is no longer a test, so nothing is compared *",
            "FAILED test_model.py::TestDecode::build - *",
        ]
    )


@pytest.mark.slow
def test_what_a_factory_compares_with_the_lock(pytester: pytest.Pytester) -> None:
    text = """
        import pytest, torch

        @pytest.mark.graphsafe(ready=False)
        def build_known(device):
            return (lambda x: x * x.sum().item()), (torch.ones(4, device=device),)

        @pytest.mark.graphsafe
        def build_ready(device):
            return (lambda x: x * 2), (torch.ones(4, device=device),)
        """
    pytester.makepyfile(test_model=text)
    result = pytester.runpytest_subprocess("--graphsafe-device=sim")
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*build_known: not in the lock, so nothing is compared; --graphsafe-update adds it"])
    pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update").assert_outcomes(passed=2)
    pytester.runpytest_subprocess("--graphsafe-device=sim").assert_outcomes(passed=2)
    pytester.makepyfile(test_model=text.replace("x * 2)", "x * 2 + 1)"))
    result = pytester.runpytest_subprocess("--graphsafe-device=sim")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["build_ready: 1 ? 2 kernel nodes"])


@pytest.mark.slow
def test_entries_of_renamed_and_removed_factories_are_said_and_can_be_removed(pytester: pytest.Pytester) -> None:
    text = """
        import pytest, torch

        def test_other():
            pass

        @pytest.mark.graphsafe
        def build_old(device):
            return (lambda x: x * 2), (torch.ones(4, device=device),)

        class TestParts:
            @pytest.mark.graphsafe
            def build_part(self, device):
                return (lambda x: x * 2), (torch.ones(4, device=device),)
        """
    lock = Path(pytester.path) / "graphsafe.lock"
    pytester.makepyfile(test_model=text, test_removed=text)
    pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update").assert_outcomes(passed=6)
    assert lock.read_text().count("[[target.") == 4
    removed = Path(pytester.path) / "test_removed.py"
    for selection in ("-k", "other"), ("test_model.py::test_other",), ("--ignore=test_removed.py", "-k", "other"):
        result = pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update", *selection)
        result.stdout.no_fnmatch_line("*no longer a test*")
    removed.unlink()
    pytester.makepyfile(test_model=text.replace("build_old", "build_new"))
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "-k", "other")
    result.assert_outcomes(passed=1, deselected=2)
    gone = ["test_model.py::build_old", "test_removed.py::TestParts::build_part", "test_removed.py::build_old"]
    said = (
        "graphsafe.lock: {} is no longer a test, so nothing is compared with its entry; --graphsafe-update removes it"
    )
    assert [line for line in result.outlines if "no longer a test" in line] == [said.format(name) for name in gone]
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update", "-k", "new")
    assert sum("its entry is removed" in line for line in result.outlines) == 3
    kept = lock.read_text()
    assert not any(name in kept for name in gone) and kept.count("[[target.") == 2


@pytest.mark.slow
def test_an_unknown_argument_of_the_mark_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_model="""
        import pytest, torch

        @pytest.mark.graphsafe(ready=True, nonsense=1)
        def build_wrong(device):
            return (lambda x: x * 2), (torch.ones(2, device=device),)

        @pytest.mark.graphsafe(device="sim")
        def test_wrong(device):
            return (lambda x: x * 2), (torch.ones(2, device=device),)

        @pytest.mark.graphsafe("sim")
        def test_unnamed(device):
            return (lambda x: x * 2), (torch.ones(2, device=device),)
        """
    )
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "-q")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "build_wrong: the mark graphsafe takes no argument nonsense; by name it takes ready, devices, buckets, *",
            "test_wrong: the mark graphsafe takes no argument device; by name it takes ready, devices, buckets, *",
            "test_unnamed: the mark graphsafe takes no argument 'sim'; by name it takes ready, devices, buckets, *",
        ]
    )
    assert "capture()" not in result.stdout.str() and len(result.outlines) < 20


@pytest.mark.slow
def test_a_factory_in_a_class_is_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_model="""
        import pytest, torch

        class TestDecode:
            scale = 2

            @pytest.mark.graphsafe(ready=True)
            def build_scaled(self, device):
                scale = self.scale
                return (lambda x: x * scale), (torch.ones(4, device=device),)

            @staticmethod
            @pytest.mark.graphsafe(ready=True)
            def build_that_reads(device):
                return (lambda x: x * x.sum().item()), (torch.ones(4, device=device),)
        """
    )
    result = pytester.runpytest_subprocess("--graphsafe-device=sim")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED test_model.py::TestDecode::build_that_reads - *"])


def test_a_lock_that_leads_out_of_the_project_is_not_written(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makepyfile(test_model=FACTORIES)
    victim = tmp_path / "victim"
    (pytester.path / "graphsafe.lock").symlink_to(victim)
    result = pytester.runpytest_subprocess("--graphsafe-device=sim", "--graphsafe-update", "-k", "known")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = result.stderr.str()
    assert "points outside the project" in said and "Traceback" not in said
    assert not victim.exists()


@pytest.mark.slow
def test_under_xdist_the_lock_is_written_once(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_model=FACTORIES, test_steps=STEPS)
    arguments = ("-n", "2", "--graphsafe-device=sim", "--graphsafe-update")
    result = pytester.runpytest_subprocess(*arguments, "-k", "decode or known or keeps or reads")
    result.assert_outcomes(passed=3, failed=1)
    lock = (Path(pytester.path) / "graphsafe.lock").read_text()
    assert lock.count("[[target.") == 3
    pytester.makepyfile(test_model=FACTORIES.replace("def build_decode", "def build_other"))
    result = pytester.runpytest_subprocess(*arguments, "-k", "reads")
    result.stdout.fnmatch_lines(["graphsafe.lock: test_model.py::build_decode is no longer a test, *entry is removed"])
    assert (Path(pytester.path) / "graphsafe.lock").read_text().count("[[target.") == 1
