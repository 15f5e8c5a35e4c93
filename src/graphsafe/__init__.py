"""graphsafe: can one step of PyTorch code be captured and replayed as a CUDA graph?"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphsafe.capture.plan.call import Planned, plan
from graphsafe.capture.step import Step

if TYPE_CHECKING:
    from graphsafe.api import capture, scan
    from graphsafe.errors import RequestError
    from graphsafe.report.model import Finding, Limit, Location, Report
else:
    from graphsafe import capture, scan  # the packages: they can be called

__all__ = [
    "Finding",
    "Limit",
    "Location",
    "Planned",
    "Report",
    "RequestError",
    "Step",
    "__version__",
    "capture",
    "plan",
    "scan",
]
__version__ = "0.1.0"

_ON_FIRST_USE = {
    "Finding": "graphsafe.report.model",
    "Limit": "graphsafe.report.model",
    "Location": "graphsafe.report.model",
    "Report": "graphsafe.report.model",
    "RequestError": "graphsafe.errors",
}
"What costs time to import, and where it lies."


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return getattr(import_module(_ON_FIRST_USE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
