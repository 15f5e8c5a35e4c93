"""Checks `with torch.cuda.graph(…)` statements: the stream, the warm-up, and the code around the block."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.naming import MODEL
from graphsafe.scan.domain.values import Function as FunctionValue
from graphsafe.scan.domain.values import Lib
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.failure_handlers import catches, swallows
from graphsafe.scan.hazards.graph_syntax import (
    WARM_UP,
    Function,
    calls_in,
    own_nodes,
    parents_in,
    place,
    run_together,
    shared_loop,
    stored_names,
)
from graphsafe.scan.hazards.owners import may_hold_object
from graphsafe.scan.hazards.same_objects import same_objects
from graphsafe.scan.sources.capture_calls import is_begin
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import dotted

AUTOCAST = frozenset(
    "torch.autocast torch.amp.autocast torch.amp.autocast_mode.autocast torch.cuda.amp.autocast"
    " torch.cuda.amp.autocast_mode.autocast".split()
)
_MOVES = frozenset("to cuda eval train half float double bfloat16 requires_grad_".split())
"Methods of a module that return the module itself and run no kernel of its `forward`."
TEST = re.compile(r"(^|\.)test_")
"Matches the names of test modules and test functions. A test captures only on one known device."
_MODEL = re.compile(rf"(?:\w+_)?(?:{MODEL}|module)")
"Matches the usual names of parameters that receive a model: `model`, `base_module`."
COMMENTED_OUT = re.compile(r"\s*#\s*(?:[\w, ]+ = )?([\w.]+)\(.*\)\s*$")
"Matches a commented-out call such as `# model(*inputs)`. The group is the name of the called function."
CURRENT_DEVICE = re.compile(r"""["']cuda(:0)?["']|\.cuda\(\)|\bcurrent_device\(\)""")
"Matches code that uses the current device. Device 0 is current from the start."
ANOTHER_DEVICE = re.compile(
    r"""cuda:(?!0["'])|device_count|set_device\((?!device\)|0\))|device_index|cuda\.device\b"""
    r"""|torch\.device\((?!device\)|["']cuda(:0)?["'](, 0)?\)|["']cuda["'], (torch\.cuda\.)?current_device\(\)\))"""
)
"Matches code that uses more than one device."


def entered(frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr) -> None:
    """Emit the events of a `with` statement that captures."""
    if not isinstance(expression, ast.Call) or TEST.search(f"{frame.file.module}.{frame.function}"):
        return
    around = [call for call in frame.entered if isinstance(call, ast.Call)]
    hot, frame.hot = frame.hot, False
    decorators = frame.node.decorator_list if frame.node is not None else []
    casts = any(_caches_casts(frame, call) for call in (*around, *decorators) if isinstance(call, ast.Call))
    swallowed = _swallowed(frame) or any(
        _name(frame, call) == "contextlib.suppress" and any(map(catches, call.args)) for call in around
    )
    cold = _never_warmed(frame, node)
    frame.hot = True
    if not _has_stream(expression):
        # If the file uses only the current device, the default capture stream is on this device too.
        search = frame.project.files.search
        has_one_device = search(frame.path, CURRENT_DEVICE) and not search(frame.path, ANOTHER_DEVICE)
        frame.emit("StreamOp", "no-stream", expression, "possible" if has_one_device else "likely")
    if swallowed:
        frame.emit("StreamOp", "swallowed", expression)
    if casts:
        frame.emit("StreamOp", "autocast-around", expression)
    if cold is not None:
        frame.emit("StreamOp", "no-warmup", expression, cold)
    frame.hot = hot


def _has_stream(call: ast.Call) -> bool:
    """Return whether a call names a stream or uses the current stream. The stream may be passed as a keyword, as the
    third argument, or in `**options`."""
    if len(call.args) >= 3 or is_begin(call):
        return True
    return any(keyword.arg in ("stream", None) for keyword in call.keywords)


# exceptions that leave the capture


def _swallowed(frame: Frame) -> bool:
    function = frame.node if isinstance(frame.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    return any(
        catches(handler.type) and swallows(handler, function, lambda call: _called(frame, call))
        for statement in frame.tries
        for handler in statement.handlers
    )


def _called(frame: Frame, call: ast.Call) -> Function | None:
    value = frame.evaluate(call.func)
    node = frame.project.function_node(value.ref) if type(value) is FunctionValue else None
    return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


# autocast


def _caches_casts(frame: Frame, call: ast.Call) -> bool:
    if _name(frame, call) not in AUTOCAST:
        return False
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return not _is_off(given.get("cache_enabled")) and not _is_off(given.get("enabled")) and None not in given


def _is_off(given: ast.expr | None) -> bool:
    """Return whether an option is off, or may be off because this line does not show its value."""
    return given is not None and not (isinstance(given, ast.Constant) and given.value is True)


def _name(frame: Frame, call: ast.Call) -> str:
    value = frame.evaluate(call.func)
    return value.name if type(value) is Lib else ""


# warm-up


def _never_warmed(frame: Frame, node: ast.With | ast.AsyncWith) -> Confidence | None:
    """Return the confidence that the block calls a function that never ran before. Return None if all its functions may
    have run.

    A caller may have warmed the function up. So any mention of a warm-up in the file counts as a warm-up, unless it is
    commented out. A mention in the methods of an unrelated class only lowers the confidence. A callable that this
    function receives as an argument counts as warm, unless the function warms up something else, or warms up only after
    the capture.
    """
    captured = list(_calls(frame, node.body))
    if frame.node is None or not captured:
        return None
    if any(_is_new(frame.node, call.func, node.lineno) for call in captured):
        return "likely"
    names = {dotted(call.func) for call in captured}
    above = frame.project.files.source(frame.path).lines[frame.node.lineno : node.lineno]
    disabled = any(found is not None and found[1] in names for found in map(COMMENTED_OUT.match, above))
    warming = [] if disabled else frame.project.files.lines_with(frame.path, WARM_UP)
    if any(may_hold_object(frame, line) for line in warming):
        return None
    others = inside(frame.node, ast.Call)
    before = [call for call in others if call.lineno < node.lineno]
    after = [call for call in others if call.lineno > (node.end_lineno or node.lineno)]
    run = {_object_called(frame.node, call) for call in captured}
    if any(_object_called(frame.node, call) in run for call in (*before, *_before_in_loop(frame.node, node, after))):
        return None
    late = any(_object_called(frame.node, call) in run for call in after)
    arguments = {tuple(map(ast.unparse, call.args)) for call in captured if call.args}
    another = any(tuple(map(ast.unparse, call.args)) in arguments for call in before)
    made_here = stored_names(ast.walk(frame.node))
    alone = all(_is_called_once(frame, name) for name in names)
    certain = late or another or names & made_here or alone or disabled
    return "likely" if certain and not warming else "possible"


def _object_called(function: Function, call: ast.Call) -> str | None:
    """Return the name of the called object: `self.model` for `model(x)` after `model = self.model`, and for
    `self.model.forward(x)`."""
    name = dotted(call.func)
    return same_objects(function).meant(name, call.lineno).removesuffix(".forward") if name is not None else None


def _before_in_loop(function: Function, block: ast.AST, after: list[ast.Call]) -> Iterator[ast.Call]:
    """Yield calls that follow a capture in the same loop, but may have run before it. The iteration that captures skips
    them, so an earlier iteration may have run them."""
    parents = parents_in(function)
    for call in after:
        if shared_loop(block, call, parents) is not None and not run_together(block, call, parents):
            yield call


def _is_new(function: Function, called: ast.expr, line: int) -> bool:
    """Return whether the function has made the object `called`, and has not used it before this line.

    An example is `net = Net().cuda()` directly before the capture. Any use of the object may call it. For `self.net`,
    any call of a method of `self` counts as a use.
    """
    text = place(called) or ""
    uses = [one for kind in (ast.Name, ast.Attribute) for one in inside(function, kind) if place(one) == text]
    made = [one for one in inside(function, ast.Assign) if [one.targets[0]] == uses[:1] and one.lineno < line]
    if len(made) != 1 or sum(one.lineno < line for one in uses) > 1 or not _makes_object(made[0].value):
        return False
    handed = {one.arg for one in parameters(function) if _MODEL.fullmatch(one.arg)}
    if any(one.id in handed for one in inside(made[0].value, ast.Name)):
        return False  # the caller may have warmed up the model in `Wrapper(model)`
    return "." not in text or (
        text.startswith("self.") and text.count(".") == 1 and not _uses_self(function, made[0].lineno, line)
    )


def _uses_self(function: Function, first: int, last: int) -> bool:
    """Return whether code between two lines calls a method of `self` or passes `self` on."""
    for parent, node in own_nodes(function):
        if first < getattr(node, "lineno", 0) < last:
            if isinstance(node, ast.Name) and node.id == "self" and not isinstance(parent, ast.Attribute):
                return True
            if isinstance(node, ast.Call) and (place(node.func) or "").startswith("self."):
                return True
    return False


def _makes_object(value: ast.expr) -> bool:
    """Return whether an expression makes an object, and perhaps moves it: `torch.nn.Linear(8, 8).to(device).eval()`."""
    while isinstance(value, ast.Call):
        name = dotted(value.func)
        if name is not None:
            return name.rpartition(".")[2][:1].isupper() and not WARM_UP.search(name)
        value = value.func.value if isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES else value.func
    return False


def _is_called_once(frame: Frame, name: str | None) -> bool:
    """Return whether only the captured block calls the object `name`, and no line binds the object to another name.

    Return False unless the object is a private method, or an attribute such as `self.net` that the constructor makes.
    """
    owner, _, attribute = (name or "").rpartition(".")
    files = frame.project.files
    if owner != "self":
        return False
    lines = files.source(frame.path).lines
    calls = files.lines_with(frame.path, re.compile(rf"\.{re.escape(attribute)}(?:\(|[,)]|$)"))
    own = [line for line in calls if f"self.{attribute}" not in lines[line - 1] or may_hold_object(frame, line)]
    if len(own) != 1:
        return False
    constructor = re.compile(rf"self\.{attribute} = (?:\w+\.)*[A-Z]\w*\((?!(?:self\.)?{_MODEL.pattern}\b)")
    made = files.lines_with(frame.path, constructor)
    return attribute.startswith("_") or any(may_hold_object(frame, line) for line in made)


def _calls(frame: Frame, body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls in a block (`model(x)`), except calls of torch and of methods of objects that the block makes."""
    made = stored_names(name for statement in body for name in inside(statement, ast.Name))
    for call in calls_in(body):
        text = dotted(call.func)
        if text is None or text.partition(".")[0] in made or text.endswith(("_", ".backward", ".step", ".clone")):
            continue
        if not _name(frame, call):
            yield call
