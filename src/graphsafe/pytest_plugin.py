"""The pytest plugin: proofs of factories as tests, and tests that also run on machines without a GPU.

The plugin does nothing until it is used. torch is imported when a test runs, not when tests are collected.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

    from graphsafe.report import model
    from graphsafe.report.shown import Report

_DEVICE = re.compile(r"sim(:\d+)?|cuda(:\d+)?")
_MARK = (
    "graphsafe(ready=True, devices=None, buckets=None): on a factory, prove its step as `graphsafe capture` does; "
    "on a test, without arguments, let the test use a GPU or, without a GPU, a simulated one"
)
Proofs = dict[str, dict[str, dict[Any, Any]]]
"The file of a lock -> the id of a test -> its entries."
_PROVEN = pytest.StashKey[Proofs]()
_COLLECTED = pytest.StashKey[dict[str, set[str]]]()
"The id of a collected module or class -> the ids of its factories and classes, selected or not."
_FOLDERS = pytest.StashKey[set[Path]]()
"The folders of test files with factories."
_GONE = pytest.StashKey[dict[str, list[str]]]()
"The file of a lock -> the ids of its entries that are no longer tests."


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("graphsafe")
    group.addoption(
        "--graphsafe-device",
        metavar="DEVICE",
        help="sim, sim:N, cuda or cuda:N. With sim, torch.device('cuda') is simulated in all tests. Default: a GPU; "
        "without a GPU, only graphsafe's tests are simulated.",
    )
    group.addoption(
        "--graphsafe-update", action="store_true", help="Write the results of marked factories into graphsafe.lock."
    )
    parser.addini("graphsafe_device", "The same as --graphsafe-device, which has precedence.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    config.stash[_PROVEN], config.stash[_COLLECTED] = {}, {}
    config.stash[_FOLDERS], config.stash[_GONE] = set(), {}
    asked = _asked(config)
    if asked is not None and _DEVICE.fullmatch(asked) is None:
        raise pytest.UsageError(f"--graphsafe-device {asked}: expected sim, sim:N, cuda or cuda:N")


def _asked(config: pytest.Config) -> str | None:
    return config.getoption("--graphsafe-device") or config.getini("graphsafe_device") or None


# Tests that use a device.


@pytest.fixture
def graphsafe_device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The device of a test: a GPU or, without a GPU, a simulated device. The test's code sees the simulated device as
    `cuda`.
    """
    import torch

    asked = _asked(request.config) or "cuda"
    index = int(asked.partition(":")[2] or 0)
    if index >= torch.cuda.device_count():
        pytest.fail(f"--graphsafe-device {asked}: this machine has {torch.cuda.device_count()} GPUs", pytrace=False)
    with torch.cuda.device(index):
        yield torch.device("cuda", index)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Give a test and its fixtures their own simulated device, so that a capture that stays open does not affect other
    tests."""
    name = _played(item)
    if name is None:
        return (yield)
    from graphsafe.capture.device import open_device

    with open_device(name).entered():
        return (yield)


def _played(item: pytest.Item) -> str | None:
    """Return the simulated device on which a test runs, or None if the test does not run on one."""
    if not isinstance(item, pytest.Function):
        return None
    asked = _asked(item.config)
    if asked is not None:
        return asked if asked.startswith("sim") else None
    if "graphsafe_device" not in item.fixturenames and item.get_closest_marker("graphsafe") is None:
        return None
    import torch

    return None if torch.cuda.is_available() else "sim"


# Factories.


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Item | None:
    """Collect a marked factory in a module or a class, whatever its name is."""
    function = getattr(obj, "__func__", obj)  # static methods and class methods contain their function
    if not isinstance(collector, (pytest.Module, pytest.Class)) or not isinstance(function, FunctionType):
        return None
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "graphsafe"]
    if not marks:
        return None
    is_test = collector.funcnamefilter(name)
    if is_test and not marks[0].args and not marks[0].kwargs:
        return None
    if not is_test and isinstance(collector, pytest.Module) and function.__module__ != collector.obj.__name__:
        return None  # an imported factory is collected in its own file
    return Factory.from_parent(collector, name=name, factory=function, mark=marks[0])


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Record the tests of a file before options such as --lf deselect some of them."""
    report = yield
    if report.passed and isinstance(collector, (pytest.Module, pytest.Class)):
        found = [one for one in report.result if isinstance(one, (Factory, pytest.Class))]
        collector.config.stash[_COLLECTED][collector.nodeid] = {one.nodeid for one in found}
        if any(isinstance(one, Factory) for one in found):
            collector.config.stash[_FOLDERS].add(collector.path.parent)
    return report


class Worse(AssertionError):
    """Raised if the result of a step is worse than its entry in graphsafe.lock."""


class Factory(pytest.Item):
    """The proof of one factory's step, over its devices and buckets."""

    def __init__(self, *, factory: FunctionType, mark: pytest.Mark, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.factory = factory
        self.own_markers += getattr(factory, "pytestmark", [])
        self._unnamed = mark.args
        options = dict(mark.kwargs)
        self._must_be_ready = bool(options.pop("ready", True))
        devices = options.pop("devices", None) or ()
        self._devices = (devices,) if isinstance(devices, str) else tuple(devices)
        self._options = options

    @property
    def _build(self) -> Callable[..., object]:
        """The factory, bound to an instance if it is a method."""
        if not isinstance(self.parent, pytest.Class):
            return self.factory
        build: Callable[..., object] = getattr(self.parent.obj(), self.name)
        return build

    def _expected_fixtures(self) -> list[str]:
        """Return the factory's parameters that get no value, except for the device."""
        parameters = [*inspect.signature(self._build).parameters.values()][1:]
        named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        needed = [one.name for one in named if one.default is one.empty]
        return [name for name in needed if name not in (self._options.get("buckets") or {})]

    def runtest(self) -> None:
        from graphsafe.api import capture
        from graphsafe.capture.request import gave_no_answer
        from graphsafe.errors import RequestError
        from graphsafe.guard.findings import NotReady, failure_text

        if self.get_closest_marker("parametrize") is not None:
            raise RequestError(f"{self.name}: parametrize does not work on a factory; give its values as buckets")
        if fixtures := self._expected_fixtures():
            named = " and ".join(fixtures)
            raise RequestError(f"{self.name}: a factory gets no fixtures; make {named} in it, or give buckets")
        options = inspect.signature(capture).parameters.values()
        by_name = [one.name for one in options if one.kind is one.KEYWORD_ONLY]
        allowed = ["ready", "devices", *(name for name in by_name if name != "device")]
        unknown = [*map(repr, self._unnamed), *(name for name in self._options if name not in allowed)]
        if unknown:
            what = f"the mark graphsafe takes no argument {', '.join(unknown)}"
            raise RequestError(f"{self.name}: {what}; by name it takes {', '.join(allowed)}")
        report = self._proof()
        if gave_no_answer(report):
            raise NotReady(failure_text(report), report)
        worse = self._against_lock(report)
        if worse:
            raise Worse("\n".join([*worse, "", failure_text(report)]))
        if report.verdict != "ready" and self._must_be_ready:
            raise NotReady(failure_text(report), report)

    def _proof(self) -> Report:
        from graphsafe.api import capture

        asked = _asked(self.config)
        # A method is called on a new object of its class, as for every test of pytest.
        return capture(self._build, device=self._devices if asked is None else (asked,), **self._options)

    def _against_lock(self, report: Report) -> tuple[str, ...]:
        """Return the regressions since the lock was written.

        Nothing is checked if the step need not be ready and the lock has no entry for the factory. In this case, warn.
        """
        from graphsafe.capture.request import gave_no_answer
        from graphsafe.config import config_over
        from graphsafe.lock import file
        from graphsafe.lock.proven import proven_by
        from graphsafe.lock.regressions import Comparison, compared, confirmed, introduced_since

        path = config_over(self.path).root / file.NAME
        if self.config.getoption("--graphsafe-update"):
            self.config.stash[_PROVEN].setdefault(str(path), {})[self.nodeid] = proven_by(report)
            return ()
        locked, introduced = file.read(path).get(self.nodeid, {}), introduced_since(path)
        if not locked:
            if not self._must_be_ready:
                missing = f"{self.name}: not in the lock, so nothing is compared; --graphsafe-update adds it"
                self.warn(pytest.PytestWarning(missing))
            return ()

        def compare(one: model.Report) -> Comparison:
            return compared(self.name, locked, proven_by(one), one, introduced, "--graphsafe-update")

        def again() -> Report | None:
            one = self._proof()
            return None if gave_no_answer(one) else one

        found = confirmed(report, compare, again)
        for text in found.skipped:
            self.warn(pytest.PytestWarning(text))
        return found.worse

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show a report in the format of the terminal. Frames of pytest or graphsafe would add nothing."""
        from graphsafe.errors import RequestError
        from graphsafe.guard.findings import NotReady

        if isinstance(excinfo.value, (NotReady, Worse, RequestError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, inspect.getsourcelines(self.factory)[1] - 1, self.name


# The lock. Only one process writes it. The workers of pytest-xdist send their results to this process.


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    proven, gone = config.stash[_PROVEN], config.stash[_GONE]
    gone.update(_gone(config))
    output = getattr(config, "workeroutput", None)
    if not proven and not gone:
        return
    from graphsafe.errors import RequestError
    from graphsafe.lock import file

    if output is not None:
        output["graphsafe"] = {path: file.text_of(lock) for path, lock in proven.items()}
        output["graphsafe_gone"] = gone
        return
    if not config.getoption("--graphsafe-update"):
        return
    try:
        for path in {**proven, **gone}:
            lock = file.joined(file.read(Path(path)), proven.get(path, {}), gone.get(path, ()))
            file.write(Path(path), lock)
    except RequestError as error:
        pytest.exit(f"graphsafe: {error}", returncode=pytest.ExitCode.USAGE_ERROR)


def _gone(config: pytest.Config) -> dict[str, list[str]]:
    """Return the lock entries of tests that no longer exist, by the file of the lock. Only locks of collected tests are
    read."""
    folders = config.stash[_FOLDERS] | ({config.rootpath} if (config.rootpath / "graphsafe.lock").is_file() else set())
    if not config.stash[_COLLECTED] or not folders:
        return {}
    from graphsafe.config import config_over
    from graphsafe.errors import RequestError
    from graphsafe.lock import file

    gone: dict[str, list[str]] = {}
    for folder in folders:
        with suppress(RequestError):  # a factory's test fails if its configuration or its lock cannot be read
            path = config_over(folder).root / file.NAME
            left = [name for name in sorted(file.read(path)) if "::" in name and _is_gone(config, path.parent, name)]
            gone |= {str(path): left} if left else {}
    return gone


def _is_gone(config: pytest.Config, root: Path, name: str) -> bool:
    """Return whether a test no longer exists: its file is missing, or its file was collected without the test.

    Test ids are relative to pytest's root folder. If the lock is in another folder, a missing file proves nothing.
    """
    test, parent = name, name.rpartition("::")[0]
    while parent:
        if parent in config.stash[_COLLECTED]:
            return test not in config.stash[_COLLECTED][parent]
        test, parent = parent, parent.rpartition("::")[0]
    return root == config.rootpath and not (root / test).exists()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for path, now in config.stash[_PROVEN].items():
        from graphsafe.report.text import count

        terminalreporter.write_line(f"{Path(path).name}: {count(len(now), 'target')} written")
    is_updated = config.getoption("--graphsafe-update")
    then = "its entry is removed" if is_updated else "nothing is compared with its entry; --graphsafe-update removes it"
    for path, names in config.stash[_GONE].items():
        for name in names:
            terminalreporter.write_line(f"{Path(path).name}: {name} is no longer a test, so {then}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    from graphsafe.lock import file

    output = getattr(node, "workeroutput", None) or {}
    for path, text in output.get("graphsafe", {}).items():
        node.config.stash[_PROVEN].setdefault(path, {}).update(file.parsed(text, path))
    node.config.stash[_GONE].update(output.get("graphsafe_gone", {}))
