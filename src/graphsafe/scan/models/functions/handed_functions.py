"""Functions that hot code passes to code that is not read: `odeint(self.rhs, y, t)`, `graph.update_all(self.send)`."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.values import UNKNOWN, Function, Unknown, Value, depends_on_step, holds_device, options
from graphsafe.scan.execution.frame import Frame


def read(frame: Frame, node: ast.Call, arguments: Arguments, receiver: Value = UNKNOWN) -> None:
    """Read the functions that a call passes to unknown code, if this code also receives values of the step.

    The unknown code probably computes further values from these, and calls the functions with the results.
    """
    given = [option for value in arguments.values() for option in options(value)]
    functions = [value for value in given if type(value) is Function] if frame.hot else []
    if not functions:
        return
    beside = [receiver, *(value for value in given if type(value) is not Function)]
    if any(map(depends_on_step, beside)):
        passed = Arguments(further=Unknown(step=True, device=any(map(holds_device, beside))))
        for function in functions:
            frame.call(node, function, passed)
