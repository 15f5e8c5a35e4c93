"""Random numbers: generators that the graph knows, and draws that the host makes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphsafe.scan.engine import Engine
    from graphsafe.scan.frame import Frame

REGISTERED = re.compile(r"\bregister_generator_state\(\s*([\w.\[\]]+)")


def is_registered(engine: Engine, frame: Frame, node: ast.Call) -> bool:
    """Whether the generator that a call draws from is given to `register_generator_state` somewhere in this file."""
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "generator"), None)
    if given is None:
        return False
    name = ast.unparse(given).rpartition(".")[2]
    text = engine.project.source(frame.path).text
    return any(known.rpartition(".")[2] == name for known in REGISTERED.findall(text))


__all__ = ["is_registered"]
