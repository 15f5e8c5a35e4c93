"""`with torch.cuda.stream(side):` in a step: whether that work is forked from the step's stream and joined to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.values import RuntimeObject, Value
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

WAITS = frozenset(("wait_stream", "wait_event", "wait"))
WAITING = re.compile(r"^.*wait_.*$", re.M)
RECORDS = frozenset(("record", "record_event"))


def entered(engine: Engine, frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr) -> None:
    if not isinstance(expression, ast.Call) or not expression.args:
        return
    argument = expression.args[0]
    stream = engine.evaluate_quietly(frame, argument)
    if type(stream) is not RuntimeObject or stream.kind != "stream":
        return
    if stream.detail == "default":
        engine.emit(frame, "StreamOp", "foreign-stream", expression)
    elif any(isinstance(inner, ast.Yield) for inner in ast.walk(node)):
        # A context manager: whoever enters it may join the stream.
        return
    elif stream.detail == "side" and frame.node is not None:
        side = _Side(frame.node, node, argument)
        if not side.is_captures_own(frame) and not (side.is_forked() and side.is_joined()):
            confidence: Confidence = "possible" if _waits_elsewhere(engine, frame, frame.node, argument) else "likely"
            engine.emit(frame, "StreamOp", "unjoined", expression, confidence)


def waited(engine: Engine, frame: Frame, node: ast.Call, stream: RuntimeObject, given: Iterable[Value]) -> None:
    """`stream.wait_stream(given)`: an order between the capture and the default stream, which CUDA refuses."""
    if any(
        type(value) is RuntimeObject and value.kind == "stream" and value.detail == "default"
        for value in (stream, *given)
    ):
        engine.emit(frame, "StreamOp", "foreign-stream", node)


def _waits_elsewhere(
    engine: Engine, frame: Frame, function: ast.FunctionDef | ast.AsyncFunctionDef, stream: ast.expr
) -> bool:
    """Whether another function of the file waits for the stream, so that the missing wait may be there."""
    text = ast.unparse(stream)
    files = engine.project.files
    own = files.shown(frame.path).lines[function.lineno - 1 : function.end_lineno]
    waiting = sum(text in line for line in files.search(frame.path, WAITING))
    return waiting > sum(text in line and "wait_" in line for line in own)


class _Side:
    """What one function does with the stream of one of its `with` statements, in the order of lines."""

    def __init__(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, block: ast.With | ast.AsyncWith, stream: ast.expr
    ) -> None:
        self._function = function
        self._block = block
        self._aliases = {
            target.id: ast.unparse(inner.value)
            for inner in ast.walk(function)
            if isinstance(inner, ast.Assign)
            for target in inner.targets
            if isinstance(target, ast.Name)
        }
        self._stream = self._text(stream)
        first, last = block.lineno, block.end_lineno or block.lineno
        calls = [inner for inner in ast.walk(function) if isinstance(inner, ast.Call)]
        self._before = [call for call in calls if call.lineno < first]
        self._inside = [call for call in calls if first <= call.lineno <= last]
        self._after = [call for call in calls if call.lineno > last]

    def is_captures_own(self, frame: Frame) -> bool:
        """The stream that the capture itself was given."""
        return any(
            keyword.arg == "stream" and self._text(keyword.value) == self._stream
            for call in frame.entered
            if isinstance(call, ast.Call)
            for keyword in call.keywords
        )

    def is_forked(self) -> bool:
        """Whether the side stream waits for the step's before its first work, or a call may see to that."""
        own = any(name in WAITS and self._text(receiver) == self._stream for name, receiver in _methods(self._before))
        return own or self._handed_over(self._before) or any(name in WAITS for name, _ in _methods(self._inside))

    def is_joined(self) -> bool:
        """Something waits for the side stream afterwards, or an event of it was recorded that others can wait for."""
        if any(name in WAITS or name == "synchronize" for name, _ in _methods(self._after)):
            return True
        return self._handed_over(self._after) or any(
            name in RECORDS for name, _ in _methods([*self._inside, *self._after])
        )

    def _handed_over(self, calls: list[ast.Call]) -> bool:
        """Whether the stream is passed to a call that may do anything with it."""
        return any(
            self._text(argument) == self._stream and not (dotted(call.func) or "").endswith("cuda.stream")
            for call in calls
            for argument in (*call.args, *(keyword.value for keyword in call.keywords))
            if not (isinstance(call.func, ast.Attribute) and call.func.attr in WAITS and call in self._before)
        )

    def _text(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        for _ in range(4):
            if text not in self._aliases or self._aliases[text] == text or "(" in self._aliases[text]:
                break
            text = self._aliases[text]
        return text


def _methods(calls: list[ast.Call]) -> Iterator[tuple[str, ast.expr]]:
    for call in calls:
        if isinstance(call.func, ast.Attribute):
            yield call.func.attr, call.func.value


__all__ = ["entered", "waited"]
