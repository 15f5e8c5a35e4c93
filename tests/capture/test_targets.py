"""All the forms that a target may have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.capture.request import parse_input

from .conftest import DEVICES, TARGETS, Answer, Prove

FORMS = ["with_args", "with_kwargs", "with_example_inputs", "with_step", "with_generator", "without_device"]


@pytest.mark.parametrize("device", DEVICES)
def test_every_form_is_ready(device: str, prove: Prove) -> None:
    reports = prove([f"{TARGETS / 'forms.py'}:{form}" for form in FORMS], device)
    assert {form: report["verdict"] for form, report in zip(FORMS, reports, strict=True)} == dict.fromkeys(
        FORMS, "ready"
    )


@pytest.mark.parametrize("device", DEVICES)
def test_inputs_of_a_bare_module_come_from_the_command_line(device: str, prove: Prove) -> None:
    [report] = prove([f"{TARGETS / 'forms.py'}:module_alone"], device, inputs=(parse_input("x:f32[4,8]=-1..1"),))
    assert report["verdict"] == "ready"


@pytest.mark.parametrize("device", DEVICES)
def test_each_bucket_has_its_verdict(device: str, prove: Prove) -> None:
    [report] = prove([f"{TARGETS / 'forms.py'}:with_axes"], device, buckets={"batch": (1, 4), "width": (8,)})
    [result] = report["devices"]
    assert [(bucket["axes"], bucket["verdict"]) for bucket in result["buckets"]] == [
        ({"batch": 1, "width": 8}, "ready"),
        ({"batch": 4, "width": 8}, "ready"),
    ]


def test_a_file_of_a_package_may_import_its_siblings(tmp_path: Path, command: Callable[..., Answer]) -> None:
    package = tmp_path / "engine" / "layers"
    package.mkdir(parents=True)
    (tmp_path / "engine" / "__init__.py").write_text("SCALE = 3.0\n")
    (package / "__init__.py").write_text("")
    (package / "norm.py").write_text(
        "import torch\nfrom .. import SCALE\n\n\ndef build(device):\n"
        "    return (lambda x: x * SCALE), (torch.randn(4, device=device),)\n"
    )
    for target in ("engine/layers/norm.py:build", "engine.layers.norm:build"):
        assert command(target, "--device", "sim").code == 0


def test_a_file_may_be_called_like_a_module_of_python(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "json.py").write_text(
        "import torch\n\n\ndef build(device):\n    return (lambda x: x + 1), (torch.randn(4, device=device),)\n"
    )
    assert command("models/json.py:build", "--device", "sim").code == 0


@pytest.mark.slow
def test_configured_targets_are_proven_by_one_command(tmp_path: Path, command: Callable[..., Answer]) -> None:
    (tmp_path / "step.py").write_text((TARGETS / "forms.py").read_text())
    (tmp_path / "graphsafe.toml").write_text(
        '[targets.plain]\nfactory = "step.py:with_args"\ndevice = "sim"\n'
        '[targets.wide]\nfactory = "step.py:with_axes"\ndevice = "sim:1"\nbuckets = { batch = [1, 2] }\n'
    )
    answer = command("--all")
    assert answer.code == 0
    assert answer.report is not None
    reports = answer.report["reports"]
    assert [(report["target"], report["verdict"]) for report in reports] == [
        ("step.py:with_args", "ready"),
        ("step.py:with_axes", "ready"),
    ]
    assert len(reports[1]["devices"][0]["buckets"]) == 2
    assert command("plain").code == 0
