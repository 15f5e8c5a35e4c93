"""`graphsafe capture --watch`: a verdict after each save, from one process that has imported torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.child
READY = "import torch\n\n\ndef build(device):\n    return (lambda x: x * 2), (torch.randn(4, device=device),)\n"


def test_the_target_is_proven_again_after_a_save(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(READY)
    options = ("capture", "model.py:build", "--shapes", "--watch", "--format", "concise")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-m", "graphsafe", *options],
        cwd=tmp_path,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as watching:
        try:
            before = _until_it_waits(watching)
            file.write_text(READY.replace("x * 2", "x * x.sum().item()"))
            after = _until_it_waits(watching)
            watching.send_signal(signal.SIGINT)
            code = watching.wait(30)
        finally:
            watching.kill()
    assert "GS101" not in before
    assert "GS101" in after
    assert code == 0


def _until_it_waits(watching: subprocess.Popen[str]) -> str:
    """Return what is printed up to the next wait for changes, or to the end."""
    assert watching.stdout is not None
    printed = ""
    while line := watching.stdout.readline():
        printed += line
        if "waiting for changes" in line:
            break
    return printed
