"""Code that steps seldom run: behind an option that nothing turns on, for a person at a keyboard, or for people who
watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

OPTION = """\
import torch


class Head(torch.nn.Module):
    def __init__(self, config, args):
        super().__init__()
        {made}

    def forward(self, x):
        if {test}:
            x = x * x.max().item()
        return x


def build(config, args):
    return Head(config, args)
"""


@pytest.mark.parametrize(
    ("made", "test", "setting", "is_found"),
    [
        ('self._noisy = config["head"].get("noisy", False)', "self._noisy", "", False),
        ('self.noisy = config.get("noisy", False)', "self.noisy and x.dim() > 1", "", False),
        ('self.noise = getattr(args, "noise", 0)', "self.noise > 0", "", False),
        ("self.config = config", 'self.config.get("noisy", False)', "", False),
        ('self.noisy = config.get("noisy", False)', "self.noisy", "config['noisy'] = True", True),
        ('self.noisy = config.get("noisy", False)', "self.noisy", "config.update(noisy=True)", True),
        ('self.noisy = config.get("noisy", True)', "self.noisy", "", True),
        ('self.noisy = config.get("noisy")', "self.noisy", "", True),
        ('self.noisy = config.get("noisy", False)', "not self.noisy", "", True),
    ],
)
def test_an_option_that_an_application_never_sets(
    tmp_path: Path, made: str, test: str, setting: str, is_found: bool
) -> None:
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "__init__.py").write_text("")
    (tmp_path / "losses" / "head.py").write_text(OPTION.format(made=made, test=test))
    (tmp_path / "train.py").write_text(
        f"from losses.head import build\n\nif __name__ == '__main__':\n    config = dict()\n    {setting}\n"
        "    build(config, None).train()\n"
    )
    assert _is_found(tmp_path, "GS101") is is_found


def test_a_configuration_sets_an_option(tmp_path: Path) -> None:
    made = 'self.noisy = config.get("noisy", False)'
    test_an_option_that_an_application_never_sets(tmp_path, made, "self.noisy", "", False)
    (tmp_path / "base.yaml").write_text("head:\n  noisy: true\n")
    assert _is_found(tmp_path, "GS101")


ROBOT = """\
import torch
from gymnasium import Env


class Robot(Env):
    def step(self, actions):
        self.{shown}()
        return actions

    def reset(self):
        self.at = torch.zeros(3, device="cuda")

    def {shown}(self):
        {body}
"""


@pytest.mark.parametrize(
    ("shown", "body", "is_found"),
    [
        ("move", "print(self.at.max().item())", True),
        ("render", "print(self.at.max().item())", False),
        ("move", "for event in self.gym.query_viewer_action_events(self.viewer): print(self.at.max().item())", False),
        ("move", "for event in pygame.event.get(): print(self.at.max().item())", False),
        ("move", "for contact in self.gym.contacts(): print(self.at.max().item())", True),
    ],
)
def test_what_an_environment_does_for_people(tmp_path: Path, shown: str, body: str, is_found: bool) -> None:
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "__init__.py").write_text("")
    (tmp_path / "sim" / "robot.py").write_text(ROBOT.format(shown=shown, body=body))
    assert _is_found(tmp_path, "GS101") is is_found


def _is_found(project: Path, code: str) -> bool:
    findings = scan_paths([project], Config(root=project)).findings
    return any(one.code == code and one.level != "note" for one in findings)
