"""Makes optimizers keep their step count on the device."""

from __future__ import annotations

import ast

from graphsafe.fixes.code import Code, Fix, dotted
from graphsafe.report.model import Finding

_CAPTURABLE = frozenset("Adam AdamW NAdam RAdam Adamax Adadelta ASGD RMSprop Rprop".split())
_RISK = "such an optimizer cannot step on the CPU"


def capturable(code: Code, finding: Finding) -> Fix | None:
    """Fix `Adam(…)` to `Adam(…, capturable=True)`, if only one line of the file creates the optimizer.

    The fix is unsafe: the device then does the arithmetic with the step count, and such an optimizer cannot step on the
    CPU.
    """
    for node in code.calls_at(finding.location):
        if isinstance(node.func, ast.Attribute):
            given = node.args[0] if node.args else node.func.value  # GradScaler.step(optimizer)
            made = code.assigned(dotted(given)) if dotted(given) else []
            maker = made[0] if len(made) == 1 else None
            if isinstance(maker, ast.Call) and dotted(maker.func).rpartition(".")[2] in _CAPTURABLE:
                edit = code.with_keyword(maker, "capturable", "True")
                return Fix("keep the step count on the device", (edit,), _RISK)
    return None
