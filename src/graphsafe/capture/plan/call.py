"""`graphsafe.plan(target)`: does from Python what `graphsafe capture --plan --emit` does."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from graphsafe.report.model import Report


@dataclass(frozen=True, slots=True)
class Planned:
    """A step's plan, `report.plan`. `code` is the source that applies it; None if it could not be written."""

    report: Report
    code: str | None

    def apply(self) -> ModuleType:
        """Replace the target's functions that have breaks, in this process.

        The returned module has `capture(fn, args, kwargs)`, which returns the step as captured graphs. Raises
        RequestError if there is no code.
        """
        from graphsafe.errors import RequestError

        if self.code is None:
            limits = [limit.why for limit in self.report.limits if limit.kind in ("emit", "plan", "bad-request")]
            reason = (self.report.plan and self.report.plan.reason) or next(iter(limits), "there is no plan")
            raise RequestError(f"{self.report.target}: {reason}")
        module = ModuleType("graphsafe_plan")
        sys.modules[module.__name__] = module
        exec(compile(self.code, "<plan>", "exec"), module.__dict__)
        module.apply()
        return module


def plan(target: str, device: str | torch.device | None = None) -> Planned:
    """Plan a target (`FILE.py:FACTORY` or `package.module:FACTORY`) in separate processes.

    `graphsafe.plan("model.py:build_layer").apply()` needs `graphsafe[plan]`. The target must be importable under its
    file's name. Raises RequestError for another kind of device, or if torch is missing.
    """
    import tempfile

    from graphsafe.capture.api import capture_target
    from graphsafe.capture.request import CaptureRequest, parse_device
    from graphsafe.config import Config

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "plan.py")
        devices = () if device is None else (parse_device(str(device)),)
        report = capture_target(CaptureRequest(target, Config(root=Path.cwd()), devices=devices, plan=True, emit=file))
        return Planned(report, file.read_text(encoding="utf-8") if file.exists() else None)
