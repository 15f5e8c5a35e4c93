"""graphsafe: can one step of PyTorch code be captured and replayed as a CUDA graph?"""
# ruff: noqa: E402

import os
import sys

_is_main = sys.argv[:1] == ["-m"] and ("-m", "graphsafe") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
if _is_main and sys.path[:1] in ([""], [os.getcwd()]):
    # `python -m` has put the working directory first on the path. A `typing.py` of the project would hide Python's own
    # module.
    del sys.path[0]

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphsafe.callable_package import make_callable
from graphsafe.capture.plan.call import Planned, plan
from graphsafe.capture.step import Step
from graphsafe.version import __version__

if TYPE_CHECKING:
    from graphsafe.api import assert_ready, capture, scan
    from graphsafe.errors import RequestError
    from graphsafe.guard.findings import Forbidden, NotReady
    from graphsafe.guard.regions import allow, forbid
    from graphsafe.report.model import Finding, Limit, Location
    from graphsafe.report.shown import Ledger, Report
    from graphsafe.run.watching import ledger, watch
else:
    from graphsafe import capture, scan  # the packages

    make_callable(capture, lambda: import_module("graphsafe.api").capture)
    make_callable(scan, lambda: import_module("graphsafe.api").scan)

__all__ = [
    "Finding",
    "Forbidden",
    "Ledger",
    "Limit",
    "Location",
    "NotReady",
    "Planned",
    "Report",
    "RequestError",
    "Step",
    "__version__",
    "allow",
    "assert_ready",
    "capture",
    "forbid",
    "ledger",
    "plan",
    "scan",
    "watch",
]

_ON_FIRST_USE = {
    "Finding": "graphsafe.report.model",
    "Forbidden": "graphsafe.guard.findings",
    "Ledger": "graphsafe.report.shown",
    "Limit": "graphsafe.report.model",
    "Location": "graphsafe.report.model",
    "Report": "graphsafe.report.shown",
    "NotReady": "graphsafe.guard.findings",
    "RequestError": "graphsafe.errors",
    "allow": "graphsafe.guard.regions",
    "assert_ready": "graphsafe.api",
    "forbid": "graphsafe.guard.regions",
    "ledger": "graphsafe.run.watching",
    "watch": "graphsafe.run.watching",
}
"Name -> the module that defines it, for names whose import takes time."


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        try:
            module = import_module(_ON_FIRST_USE[name])
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            refused = import_module("graphsafe.errors").RequestError
            raise refused(f'graphsafe.{name} needs PyTorch: pip install "graphsafe[capture]"') from None
        value = globals()[name] = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
