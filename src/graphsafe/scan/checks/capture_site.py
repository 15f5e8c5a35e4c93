"""The `with torch.cuda.graph(…)` statement itself: its stream, its warm-up, and what stands around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.values import Lib
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

AUTOCAST = frozenset(
    "torch.autocast torch.amp.autocast torch.amp.autocast_mode.autocast torch.cuda.amp.autocast"
    " torch.cuda.amp.autocast_mode.autocast".split()
)
FAILURES = frozenset(("Exception", "BaseException", "RuntimeError", "AcceleratorError"))
"What catches a failed capture: it raises RuntimeError, or torch's AcceleratorError, which derives from it."

TEST = re.compile(r"(^|\.)test_")
"Module or function of a test, which knows the one device that it captures on."
WARM_UP = re.compile("warm", re.IGNORECASE)


def entered(engine: Engine, frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr) -> None:
    if not isinstance(expression, ast.Call) or TEST.search(f"{frame.file.module}.{frame.function}"):
        return
    around = [call for call in frame.entered if isinstance(call, ast.Call)]
    hot, frame.hot = frame.hot, False
    casts = any(_caches_casts(engine, frame, call) for call in around)
    swallowed = _swallowed(frame) or any(_suppresses(engine, frame, call) for call in around)
    cold = _never_warmed(engine, frame, node)
    frame.hot = True
    if not _has_stream(expression):
        engine.emit(frame, "StreamOp", "no-stream", expression)
    if swallowed:
        engine.emit(frame, "StreamOp", "swallowed", expression)
    if casts:
        engine.emit(frame, "StreamOp", "autocast-around", expression)
    if cold is not None:
        engine.emit(frame, "StreamOp", "no-warmup", expression, cold)
    frame.hot = hot


def _has_stream(call: ast.Call) -> bool:
    """`stream` is the third parameter of torch.cuda.graph; `**options` may hold it."""
    if len(call.args) >= 3:
        return True
    return any(keyword.arg in ("stream", None) for keyword in call.keywords)


# what happens to an exception that leaves the capture


def _swallowed(frame: Frame) -> bool:
    return any(
        _catches(handler.type) and swallows(handler) for statement in frame.tries for handler in statement.handlers
    )


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether an exception ends there: no `raise` in the handler's own body."""
    return not any(isinstance(inner, ast.Raise) for statement in handler.body for inner in ast.walk(statement))


def _suppresses(engine: Engine, frame: Frame, call: ast.Call) -> bool:
    return _name(engine, frame, call) == "contextlib.suppress" and any(map(_catches, call.args))


def _catches(caught: ast.expr | None) -> bool:
    """Whether `except caught:` (a bare one for None) sees the failure of a capture."""
    if caught is None:
        return True
    return any(ast.unparse(part).rpartition(".")[2] in FAILURES for part in getattr(caught, "elts", [caught]))


# autocast


def _caches_casts(engine: Engine, frame: Frame, call: ast.Call) -> bool:
    if _name(engine, frame, call) not in AUTOCAST:
        return False
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return not _is_off(given.get("cache_enabled")) and not _is_off(given.get("enabled")) and None not in given


def _is_off(given: ast.expr | None) -> bool:
    """Switched off, or decided where this line does not show it."""
    return given is not None and not (isinstance(given, ast.Constant) and given.value is True)


def _name(engine: Engine, frame: Frame, call: ast.Call) -> str:
    value = engine.evaluate(frame, call.func)
    return value.name if type(value) is Lib else ""


# warm-up


def _never_warmed(engine: Engine, frame: Frame, node: ast.With | ast.AsyncWith) -> Confidence | None:
    """The confidence that the block calls something that has not run before; None where it may have run.

    A caller may have warmed it up. So any word of a warm-up in the file counts, and arguments are taken to be warm,
    unless the function itself warms up something else, or does so after the capture.
    """
    captured = list(_calls(engine, frame, node.body))
    if frame.node is None or not captured or engine.project.files.search(frame.path, WARM_UP):
        return None
    names = {dotted(call.func) for call in captured}
    others = [inner for inner in ast.walk(frame.node) if isinstance(inner, ast.Call)]
    before = [call for call in others if call.lineno < node.lineno]
    if names & {dotted(call.func) for call in before}:
        return None
    late = names & {dotted(call.func) for call in others if call.lineno > (node.end_lineno or node.lineno)}
    arguments = {tuple(map(ast.unparse, call.args)) for call in captured if call.args}
    another = any(tuple(map(ast.unparse, call.args)) in arguments for call in before)
    made_here = {
        name.id for name in ast.walk(frame.node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    return "likely" if late or another or names & made_here else "possible"


def _calls(engine: Engine, frame: Frame, body: list[ast.stmt]) -> Iterator[ast.Call]:
    """What the block calls that is neither torch's nor a method of what it makes: `model(x)`, `self.step(x)`."""
    inside = [inner for statement in body for inner in ast.walk(statement)]
    made = {name.id for name in inside if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    for inner in inside:
        text = dotted(inner.func) if isinstance(inner, ast.Call) else None
        if text is None or text.partition(".")[0] in made or text.endswith(("_", ".backward", ".step", ".clone")):
            continue
        assert isinstance(inner, ast.Call)
        if not _name(engine, frame, inner):
            yield inner


__all__ = ["entered"]
