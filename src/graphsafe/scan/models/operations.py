"""Operations of the op table: the events of a call, and its result."""

from __future__ import annotations

import ast
from itertools import chain, repeat

from graphsafe.optable import Argument, Call, Effect, EffectKind, Hit, Op, Result
from graphsafe.report.model import Confidence
from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import sequence
from graphsafe.scan.domain.numbers import type_of
from graphsafe.scan.domain.summary import StepInput
from graphsafe.scan.domain.values import (
    ARRAY,
    NONE,
    NUMBER,
    SIZE,
    UNKNOWN,
    DeviceValue,
    Dtype,
    DtypeValue,
    Lib,
    NoneValue,
    Number,
    RuntimeObject,
    Sequence,
    Tensor,
    Unknown,
    Value,
    Where,
    all_maybe_host,
    depends_on_step,
    describe,
    may_be_none,
    of_elements,
    together,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import draws, fixed_device
from graphsafe.scan.models.distributions import CHECKS_OFF, DISTRIBUTIONS, ON_HOST, UNCHECKED, checks_are_off
from graphsafe.scan.models.op_arguments import (
    are_answers,
    argument,
    device_named,
    dtype_named,
    in_new_order,
    is_certain_size,
    may_be_true,
    tensors_in,
)
from graphsafe.scan.state import host_clock
from graphsafe.scan.symbols.default_device import default_device_covers

EVENT_OF_EFFECT: dict[EffectKind, EventKind] = {
    "reads-host": "HostRead",
    "branches": "Branch",
    "hidden-sync": "HostRead",
    "waits": "StreamOp",
    "dynamic-shape": "Extent",
    "copies": "Transfer",
    "allocates": "Alloc",
    "random": "Rng",
    "host-state": "AttrWrite",
}
"""Effect in the op table -> the kind of event that scan emits for it."""

SIZE_READS = frozenset(("size", "narrow", "split"))
"The kinds of host reads that read the size arguments, not the tensor itself."


def by_table(frame: Frame, node: ast.Call, op: Op, name: str, receiver: Tensor | None, arguments: Arguments) -> Value:
    """Emit the effects of calling an op of the table, and return the result."""
    if name.startswith(DISTRIBUTIONS) and checks_are_off(frame):
        arguments = replace(arguments, keywords={**CHECKS_OFF, **arguments.keywords})
    if receiver is not None:
        arguments = in_new_order(name, arguments)
    called = _Called(frame, node, op, name, receiver, arguments)
    if frame.hot:
        called.note_state()
        if op.placement == "argument":
            fixed_device.named(frame, node)
        if op.effects:
            called.emit_effects()
    if op.reads_clock:
        return host_clock.read(frame, node)
    if name.startswith(DISTRIBUTIONS):
        checks_values = any(hit.effect.rule for hit in op.effects_of(called.call))
        if any(tensor.where != "host" for tensor in called.tensors):
            return RuntimeObject("library", name if checks_values else f"{name}{UNCHECKED}")
        if checks_values and called.is_of_host:
            return RuntimeObject("library", f"{name}{ON_HOST}")
    return called.result()


def _clash(tensors: tuple[Tensor, ...]) -> bool:
    """Return whether torch would reject these tensors. If so, the scan has assumed a wrong device for one of them."""
    on_host = any(tensor.where == "host" and (tensor.ndim or 0) > 0 for tensor in tensors)
    return on_host and any(tensor.where == "device" for tensor in tensors)


def elementwise(tensors: tuple[Tensor, ...], dtype: Dtype | None) -> Tensor:
    """Return the result of an elementwise operation on these tensors."""
    ndim: int | None = 0
    for tensor in tensors:
        ndim = None if ndim is None or tensor.ndim is None else max(ndim, tensor.ndim)
    return Tensor(
        where=together(tensors),
        dtype=dtype,
        ndim=ndim,
        step=any(tensor.step for tensor in tensors),
        fresh=True,
        certain=any(tensor.certain for tensor in tensors) and not _clash(tensors),
        maybe_host=all_maybe_host(tensors),
    )


class _Called:
    """A call of an op of the table."""

    def __init__(
        self, frame: Frame, node: ast.Call, op: Op, name: str, receiver: Tensor | None, arguments: Arguments
    ) -> None:
        self._frame = frame
        self._node = node
        self._op = op
        self._name = name
        self._receiver = receiver
        self._arguments = arguments
        self._values: list[Value] = [*([receiver] if receiver is not None else ()), *arguments.positional]
        "The receiver, if there is one, and the positional arguments."
        self._everything = [*self._values, *arguments.keywords.values()]
        self.tensors = [tensor for value in self._everything for tensor in tensors_in(value)]
        self._first = receiver if receiver is not None else self.tensors[0] if self.tensors else None
        self._where = self._placement()
        self.call = self._as_asked()

    def _placement(self) -> Where:
        """Return the device of the result."""
        op, given = self._op, self._arguments.keywords.get("device")
        named = device_named(given)
        if op.placement == "host":
            # `torch.Tensor(data, device=d)` raises an error if `d` is not the CPU, so it never copies to the device.
            return "any" if given is not None and (named is None or named.where != "host") else "host"
        if op.placement == "accelerator" or type(given) is Unknown:
            return "device"
        if named is not None:
            return "device" if named.where == "any" else named.where
        lists_values = bool(self._values) and type(self._values[0]) is Sequence
        if op.placement == "argument" and (not self.tensors or op.is_factory or lists_values):
            # The device of a tensor among the sizes or the values does not affect the device of the result.
            return self._default_placement()
        if self.tensors:
            return together(self.tensors)
        # torch converts Python numbers to host tensors.
        plain = (Number, DtypeValue, NoneValue)
        return "host" if self._everything and all(type(value) in plain for value in self._everything) else "any"

    def _default_placement(self) -> Where:
        """Return where torch creates a tensor if the call names no device. A tensor without elements counts as being on
        any device, because moving it copies nothing: `torch.zeros(0).to(device)`."""
        frame = self._frame
        first = self._values[0] if self._values else None
        if self._op.params[:1] in (("size",), ("size*",)) and type(first) is Number and first.const == 0:
            return "any"
        if frame.contexts and frame.contexts[-1] in ("device", "host"):
            return frame.contexts[-1]  # type: ignore[return-value]
        of_models, of_all = default_device_covers(frame.project.files, frame.path)
        makes_model = of_models and not frame.hot and (frame.owner is None or frame.attributes.is_module(frame.owner))
        return "any" if of_all or makes_model else "host"

    def _as_asked(self) -> Call:
        """Return the call in the form that the op table's conditions take."""
        op, node, arguments = self._op, self._node, self._arguments
        if not op.effects and not op.cases:
            return Call()
        if op.compares_texts:
            nodes: list[ast.expr] = list(node.args)
            if self._receiver is not None and isinstance(node.func, ast.Attribute):
                nodes.insert(0, node.func.value)
            texts = chain(map(ast.unparse, nodes), repeat(""))
            positional = [argument(value, text) for value, text in zip(self._values, texts, strict=False)]
        else:
            positional = [argument(value) for value in self._values]
        keywords = {name: argument(value) for name, value in arguments.keywords.items()}
        if self._where == "device" and op.placement == "argument":
            # The device counts as given even if a string or number names it, or `with torch.device("cuda")` sets it.
            keywords["device"] = Argument("device")
        elif self._where == "host" and "device" in keywords:
            keywords["device"] = Argument("host-device")
        return Call(positional, keywords, arguments.further is not None, inside=self._entered())

    def _entered(self) -> frozenset[str]:
        """Return the full names of the library's context managers around the call, if the op table asks for them."""
        entered = self._frame.entered if self._op.asks_contexts else ()
        made = [one.func for one in entered if isinstance(one, ast.Call)]
        return frozenset(value.name for value in map(self._frame.evaluate, made) if type(value) is Lib)

    @property
    def is_of_host(self) -> bool:
        """Whether all arguments are None, numbers, or tensors that are known to be on the host."""
        plain = (Number, NoneValue)
        return all(type(value) in plain or type(value) is Tensor for value in self._everything)

    # effects

    def note_state(self) -> None:
        for value in self._everything:
            for item in value.items or (value.elem,) if type(value) is Sequence else (value,):
                self._frame.use_number(item, "argument", self._node)
        out = self._arguments.keywords.get("out")
        if type(out) is Tensor and out.attr is not None:
            self._frame.engine.note(StepInput(out.attr))

    def emit_effects(self) -> None:
        frame, node, op = self._frame, self._node, self._op
        words = {"op": self._name}
        positional = self._arguments.positional
        if op.copies_values and positional and type_of(positional[0]) in ("int", "float", "bool"):
            words["data"] = "a number"
        for hit in op.effects_of(self.call):
            effect = hit.effect
            if effect.how == "draw" and self._where == "host" and hit.certain:
                frame.emit("Rng", "host-random", node, self._drawn_on_host())
            if effect.how == "private-generator" and draws.is_registered(frame, node):
                continue
            if effect.rule is not None and effect.kind in EVENT_OF_EFFECT and self._happens(effect):
                confidence = self._confidence(hit)
                if confidence == "possible" and effect.how == "cast" and op.copies_values and self._where == "device":
                    # The numbers in the list may be tensors of the host, but the list is copied in any case.
                    frame.emit("Transfer", "literal", node, "likely", None, value="a list", **words)
                    continue
                subject = self._subject(effect)
                value = describe(subject) if subject is not None else "a device tensor"
                frame.emit(EVENT_OF_EFFECT[effect.kind], effect.how, node, confidence, None, value=value, **words)

    def _subject(self, effect: Effect) -> Tensor | None:
        """Return the tensor that an effect concerns: the first argument that may be on the device."""
        tensors = self._decisive(effect) or self.tensors
        return next((tensor for tensor in tensors if tensor.where != "host"), None)

    def _decisive(self, effect: Effect) -> list[Tensor]:
        """Return the tensors on which an effect depends, according to the `kinds` in the effect's condition."""
        call, keywords = self.call, self._arguments.keywords
        params = effect.when.kinds if effect.when is not None else ()
        asked = {id(one) for param in params for one in self._op.arguments(call, param)}
        passed = [*zip(call.positional, self._values, strict=False)]
        passed += [(call.keywords[name], value) for name, value in keywords.items() if name in call.keywords]
        return [tensor for one, value in passed if id(one) in asked for tensor in tensors_in(value)]

    def _happens(self, effect: Effect) -> bool:
        """Return whether an effect happens on the device of this call. Most effects do not happen on the host."""
        if effect.anywhere:
            return True
        on_device = self._where != "host" or together(self.tensors) != "host"
        return (on_device or self._may_hold_tensors) and not (effect.kind == "allocates" and self._where == "host")

    @property
    def _may_hold_tensors(self) -> bool:
        """Whether some argument may be a tensor, although none is known to be a tensor."""
        return not self.tensors and any(type(value) is Unknown and value.device for value in self._everything)

    def _confidence(self, hit: Hit) -> Confidence:
        effect = hit.effect
        if not (hit.certain or self._copies_unknown(effect)) or self._is_guessed():
            return "possible"
        if not self.tensors and self._op.params == ("obj",):
            return "possible"  # `pickle.dumps` accepts any object
        sizes = self._decisive(effect) if effect.how in SIZE_READS else []
        if sizes and (all_maybe_host(sizes) or not any(map(is_certain_size, sizes))):
            return "possible"
        is_elsewhere = not self.tensors and self._op.placement == "same" and not effect.anywhere
        if is_elsewhere and not self._may_hold_tensors:
            return "possible"
        if effect.how == "private-generator":
            # Callers usually leave out an option that defaults to None.
            is_given = may_be_none(self._arguments.keywords.get("generator", NONE)) is False
            return "likely" if is_given else "possible"
        return "likely"

    def _drawn_on_host(self) -> Confidence:
        """Return the confidence that an operation draws random numbers on the host."""
        shown_by = self.tensors if self._op.placement == "same" else ()
        return "possible" if any(not one.certain or one.maybe_pinned for one in shown_by) else "likely"

    def _copies_unknown(self, effect: Effect) -> bool:
        """Return whether `torch.tensor(value, device=…)` receives a value about which nothing is known.

        `torch.tensor` warns if it receives a tensor. So the value is most likely a number, list or array.
        """
        return effect.how == "literal" and self._op.copies_values and type(next(iter(self._values), None)) is Unknown

    def _is_guessed(self) -> bool:
        """Return whether it is only a guess that a value is a tensor, or that this tensor is on the device."""
        if self._receiver is not None and not self._receiver.certain:
            return True
        return all_maybe_host(self.tensors) or any(map(_may_be_host, self._everything))

    # the result

    def result(self) -> Value:
        result, first = self._op.result_of(self.call), self._first
        if result.kind == "none":
            return NONE
        if result.kind == "object":
            return Unknown(self._step, True)
        if result.kind == "self":
            # The operation works in place, so the tensor now depends on all its operands.
            return UNKNOWN if first is None else replace(first, step=first.step or self._step)
        if result.kind == "reduction":
            return self._made(result.of, 0)
        if result.kind == "tuple":
            if len(result.elements) == 1:
                return of_elements("tuple", self._made(result.elements[0]))
            return sequence("tuple", [self._made(kind) for kind in result.elements])
        return self._made(result.kind, self._ndim(result))

    @property
    def _step(self) -> bool:
        """Whether the result derives from the step's inputs."""
        return not self._op.valueless and any(map(depends_on_step, [*self.tensors, *self._values]))

    def _made(self, kind: str, ndim: int | None = None) -> Value:
        """Return a result of the kind that the op table names."""
        if kind == "host":
            return ARRAY if self._draws_several() else NUMBER
        if kind == "shape":
            return SIZE
        keywords, receiver, first = self._arguments.keywords, self._receiver, self._first
        dtype: Dtype | None = {"mask": "bool", "int": "int", "float": "float"}.get(kind)  # type: ignore[assignment]
        if kind == "same":
            dtype = first.dtype if first is not None else None
        if "dtype" in keywords:
            dtype = dtype_named(keywords["dtype"], dtype)
        elif self._op.copies_values and are_answers(self._values):
            dtype = "bool"
        out = keywords.get("out")
        made = Tensor(
            where=self._where,
            dtype=dtype,
            ndim=ndim,
            step=self._step,
            fresh=True,
            pinned=may_be_true(keywords.get("pin_memory")) or (type(out) is Tensor and out.pinned),
            literal=self._op.copies_values and (self._where == "host" or (self._where == "any" and not self.tensors)),
            # The function accepts only tensors, so an argument that was only likely to be a tensor is certainly one.
            certain=receiver is None or receiver.certain,
            maybe_host=all_maybe_host(self.tensors) or (not self.tensors and self._is_somewhere()),
        )
        if type(out) is Tensor:
            # torch writes into this tensor and returns it.
            return replace(made, where=out.where, dtype=out.dtype, fresh=out.fresh, attr=out.attr, name=out.name)
        if not self._op.view or first is None:
            return made
        return replace(made, fresh=first.fresh, attr=first.attr, name=first.name, pinned=made.pinned or first.pinned)

    def _draws_several(self) -> bool:
        """Return whether numpy draws an array: `rng.normal(size=8)`, `np.random.permutation(n)`."""
        return "size" in self._arguments.keywords or self._name.endswith(("permutation", "permuted"))

    def _is_somewhere(self) -> bool:
        """Return whether a result that is made without tensors (`zeros`) may be on the host. This is so if its device,
        or the default device, is not known."""
        device = self._arguments.keywords.get("device")
        return _may_be_host(device) or (self._where == "any" and self._op.placement == "argument")

    def _ndim(self, result: Result) -> int | None:
        op, first = self._op, self._first
        if result.ndim is not None:
            return result.ndim
        if op.pointwise:
            ndims = [tensor.ndim for tensor in self.tensors]
            return None if None in ndims or not ndims else max(n for n in ndims if n is not None)
        if op.ndim == "size":
            return self._ndim_of_size()
        if op.ndim == "same" or op.ndim == "one-more":
            return None if first is None or first.ndim is None else first.ndim + (op.ndim == "one-more")
        if op.ndim is not None:
            return op.ndim
        data = self._values[0] if op.copies_values and self._values else UNKNOWN
        if type(data) is Number:
            return 0
        return 1 if type(data) is Sequence and type(data.elem) is Number else None

    def _ndim_of_size(self) -> int | None:
        size = self._arguments.keywords.get("size")
        sizes = self._arguments.positional if size is None else (size,)
        listed = next((value for value in sizes if type(value) is Sequence), None)
        if listed is not None:
            return len(listed.items) if listed.items is not None else None
        spread = "size*" in self._op.params and len(sizes) > 0 and not self._arguments.further
        spread = spread and all(type(value) is Number for value in sizes)
        return len(sizes) if spread else None


def _may_be_host(device: Value | None) -> bool:
    named = device_named(device) if type(device) in (DeviceValue, Number) else None
    return named is not None and named.maybe_host
