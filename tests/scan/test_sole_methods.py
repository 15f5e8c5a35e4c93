"""Objects of unknown class: a method that only one class of the project defines tells the class."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

LEARNERS = """\
import torch


class Learner:
    def __init__(self, net, optimizer, device):
        self.net, self.optimizer, self.device = net, optimizer, device

    def feed_data(self, data):
        self.x = data["x"].to(self.device)

    def {method}(self, step):
        self.optimizer.zero_grad()
        loss = self.net(self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()
"""
SUBCLASS = """\
from learners import Learner


class Paired(Learner):
    def feed_data(self, data):
        self.y = data["y"].to(self.device)
"""
LOOP = """\
from plugins import build


def run(options, train_loader):
    learner = build(options)
    for step, batch in enumerate(train_loader):
        learner.feed_data(batch)
        learner.{method}(step)
"""


def found(root: Path, files: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return the name of the file, the code and the text of the line of each finding above note."""
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    findings = [f for f in scan_paths([root], Config(root=root)).findings if f.level != "note"]
    places = [(Path(f.location.path).name, f.location.line, f.code) for f in findings]
    return [(name, code, files[name].splitlines()[line - 1].strip()) for name, line, code in places if name in files]


def program(method: str, **more: str) -> dict[str, str]:
    files = {"learners.py": LEARNERS.format(method=method), "main.py": LOOP.format(method=method)}
    return files | {f"{name}.py": text for name, text in more.items()}


def test_a_loop_trains_through_a_method_that_one_class_defines(tmp_path: Path) -> None:
    assert found(tmp_path, program("train_on")) == [
        ("learners.py", "GS304", 'self.x = data["x"].to(self.device)'),
        ("learners.py", "GS101", "return loss.item()"),
    ]


def test_methods_of_subclasses_may_run_too(tmp_path: Path) -> None:
    reported = found(tmp_path, program("train_on", paired=SUBCLASS))
    assert ("paired.py", "GS304", 'self.y = data["y"].to(self.device)') in reported
    assert ("learners.py", "GS304", 'self.x = data["x"].to(self.device)') in reported


@pytest.mark.parametrize("method", ["train", "load_state_dict"])
def test_common_names_do_not_tell_the_class(tmp_path: Path, method: str) -> None:
    text = LEARNERS.format(method=method).replace("feed_data", "feed")
    loop = LOOP.format(method=method).replace("feed_data", "feed")
    assert "GS304" not in {code for _, code, _ in found(tmp_path, {"learners.py": text, "main.py": loop})}


def test_methods_of_two_unrelated_classes_do_not_tell_the_class(tmp_path: Path) -> None:
    other = (
        "class Other:\n    def train_on(self, step):\n        pass\n\n    def feed_data(self, data):\n        pass\n"
    )
    assert "GS304" not in {code for _, code, _ in found(tmp_path, program("train_on", other=other))}


def test_a_method_that_cannot_take_the_arguments_is_not_meant(tmp_path: Path) -> None:
    text = LEARNERS.format(method="train_on").replace("(self, data)", "(self)")
    reported = found(tmp_path, {"learners.py": text, "main.py": LOOP.format(method="train_on")})
    assert not any("data" in line for _, _, line in reported)


def test_classes_of_tests_are_not_meant(tmp_path: Path) -> None:
    files = {"learners.py": "", "main.py": LOOP.format(method="train_on")}
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "learners.py").write_text(LEARNERS.format(method="train_on"))
    assert found(tmp_path, files) == []


POOL = """\
import torch


class Blocks:
    def __init__(self, count, device):
        self.free_blocks, self.device = list(range(count)), device

    def allocate(self, count):
        taken, self.free_blocks = self.free_blocks[:count], self.free_blocks[count:]
        return torch.tensor(taken, device=self.device)

    def give_back(self, taken):
        self.free_blocks += taken


class Cache:
    def {second}(self, taken):
        pass
"""
ENGINE = """\
import torch


class Engine(torch.nn.Module):
    def __init__(self, space):
        super().__init__()
        self.space = space

    def forward(self, x, count):
        blocks = self.space.allocate(count)
        {further}
        return x[blocks]
"""


def test_two_short_names_tell_the_class_together(tmp_path: Path) -> None:
    further = "self.space.give_back([])"
    files = {"pool.py": POOL.format(second="give_back"), "engine.py": ENGINE.format(further=further)}
    assert ("pool.py", "GS301", "return torch.tensor(taken, device=self.device)") in found(tmp_path, files)


def test_one_short_name_does_not_tell_the_class(tmp_path: Path) -> None:
    files = {"pool.py": POOL.format(second="clear"), "engine.py": ENGINE.format(further="pass")}
    assert "GS301" not in {code for _, code, _ in found(tmp_path, files)}


def test_a_method_of_another_class_is_not_meant(tmp_path: Path) -> None:
    further = "self.space.resize(count)"
    files = {"pool.py": POOL.format(second="resize"), "engine.py": ENGINE.format(further=further)}
    assert "GS301" not in {code for _, code, _ in found(tmp_path, files)}


FAMILY = """\
import torch


class Graph:
    def line_graph(self, count):
        return torch.tensor([1, count], device="cuda")


class Packed(Graph):
    def line_graph(self, count):
        return torch.tensor([2, count], device="cuda")
"""
READER = """\
import torch


class Layer(torch.nn.Module):
    def forward(self, item, x):
        return x + item.line_graph(2)
"""


def test_a_module_may_call_the_method_of_any_subclass(tmp_path: Path) -> None:
    assert found(tmp_path, {"graph.py": FAMILY, "layer.py": READER}) == []


def test_a_module_calls_the_method_of_the_only_class(tmp_path: Path) -> None:
    only = FAMILY[: FAMILY.index("class Packed")]
    assert "GS301" in {code for _, code, _ in found(tmp_path, {"graph.py": only, "layer.py": READER})}
