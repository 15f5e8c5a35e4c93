"""`graphsafe.plan(target)`: does from Python what `graphsafe capture --plan --emit` does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from graphsafe.errors import RequestError
from graphsafe.files import import_folder

if TYPE_CHECKING:
    import torch

    from graphsafe.report.model import Report


@dataclass(frozen=True, slots=True)
class Planned:
    """A step's plan, `report.plan`. `code` is the source that applies it; None if it could not be written."""

    report: Report
    code: str | None
    file: Path | None = None
    "The target's file; None if the target names a module."

    def apply(self) -> ModuleType:
        """Replace the target's functions that have breaks, in this process.

        The returned module has `capture(fn, args, kwargs)`, which returns the step as captured graphs. Raises
        RequestError if there is no code, or if another module has the name of the target's file.
        """
        if self.code is None:
            limits = [limit.why for limit in self.report.limits if limit.kind in ("emit", "plan", "bad-request")]
            reason = (self.report.plan and self.report.plan.reason) or next(iter(limits), "there is no plan")
            raise RequestError(f"{self.report.target}: {reason}")
        module = ModuleType("graphsafe_plan")
        sys.modules[module.__name__] = module
        with _imported_first(self.file):
            exec(compile(self.code, "<plan>", "exec"), module.__dict__)
        module.apply()
        return module


@contextmanager
def _imported_first(file: Path | None) -> Iterator[None]:
    """Let imports prefer the target's file, and the files beside it, to other files with the same names."""
    if file is None:
        yield
        return
    folder = import_folder(file)
    name = ".".join([*file.relative_to(folder).parent.parts, file.stem])
    other = getattr(sys.modules.get(name), "__file__", None)
    if other is not None and Path(other).resolve() != file:
        raise RequestError(f"{file}: the module {name} is already imported from {other}")
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


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
        code = Path(folder, "plan.py")
        file = Path(target.rpartition(":")[0])
        devices = () if device is None else (parse_device(str(device)),)
        report = capture_target(CaptureRequest(target, Config(root=Path.cwd()), devices=devices, plan=True, emit=code))
        text = code.read_text(encoding="utf-8") if code.exists() else None
        return Planned(report, text, file.resolve() if file.suffix == ".py" else None)
