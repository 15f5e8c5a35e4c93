"""Entries of the op table, and the effects and results of a call according to an entry.

Conditions are data. They are evaluated here, and their results depend only on a `Call`. A result is True, False or
None. None ("perhaps") means that the result depends on an unknown argument (`*args`, a value of unknown kind).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, Literal

_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def version_matches(version: str, spec: str) -> bool:
    """Return whether a torch version such as `2.11.0+cu130` is in the range `spec`, such as `>=2.6,<2.12`.

    A pre-release counts as its release. Raises ValueError if `spec` is not a range.
    """
    bounds = [re.fullmatch(r"\s*(>=|<=|==|!=|>|<)\s*([\d.]+)\s*", part) for part in spec.split(",")]
    if None in bounds:
        raise ValueError(f"not a version range: {spec!r}")
    return all(_COMPARE[bound[1]](_release(version), _release(bound[2])) for bound in bounds if bound is not None)


def _release(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.findall(r"\d+", version.split("+")[0])[:3]]
    return (*numbers, 0, 0, 0)[:3]


EffectKind = Literal[
    "reads-host", "branches", "dynamic-shape", "copies", "allocates", "random", "hidden-sync", "waits", "host-value",
    "host-state",
]  # fmt: skip
"""The kinds of effects of an operation. `branches`: the operation reads the device to choose the code that runs.
`waits`: the operation is an explicit wait or query. `host-value`: the result is a Python value that differs from step
to step, and a graph freezes it. `host-state`: the operation advances a count on the host, and replays do not advance
it."""
ResultKind = Literal[
    "tensor", "mask", "int", "float", "same", "reduction", "host", "shape", "none", "tuple", "self", "object"
]
ArgumentKind = Literal[
    "tensor", "mask", "tensors", "host-tensor", "number", "bool", "string", "none", "sequence", "empty", "dtype",
    "device", "host-device", "other",
]  # fmt: skip
"""The kinds of arguments. `tensor` is a device tensor. `mask` is a device tensor of bool, for which conditions on
`tensor` also hold.

A list or tuple is `empty`, `mask` (it contains masks), `tensors` (it contains other device tensors) or `sequence`.
`device` is an accelerator, `host-device` the CPU. The literal value of a `dtype` is the name of the dtype (`bool`).
"""
Basis = Literal["measured", "tag", "documented", "schema"]
"""The source of an entry.

`measured`: on a GPU. `tag`: PyTorch's op tags. `documented`: PyTorch's documentation and sources, without a run.
`schema`: only the operation's schema, which describes the result but not waits.
"""
Placement = Literal["same", "argument", "host", "accelerator"]
TensorHint = Literal["value", "parameter", "step-input", "operand"]
"""The values that count as tensors if code uses a method or attribute with this name on them.

`value`: any value without other evidence. `parameter`: only a parameter of hot code, because arrays share some of these
names but are rarely parameters of hot code. `step-input`: only an argument of a step. `operand`: only a value whose
method has a device tensor as an argument, because methods of arrays accept no device tensors. Each kind includes the
kinds after it.
"""
HostArguments = Literal["none", "scalars", "tensors"]
"""The host tensors that a kernel on the device accepts as arguments. `scalars` are 0-d tensors, which the kernel takes
as numbers.
"""


class _Unknown:
    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"The value of an argument that is not a literal."


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call, as far as it is known."""

    kind: ArgumentKind | None = None
    literal: Any = UNKNOWN
    text: str = ""
    """The source code of the argument, for the condition `same`, or "" without source code."""


@dataclass(frozen=True, slots=True)
class Call:
    """The facts about a call that decide which effects it has.

    `x.histc(8)` and `torch.histc(x, 8)` have the same facts: the receiver is the first argument.
    """

    positional: Sequence[Argument] = ()
    keywords: Mapping[str, Argument] = field(default_factory=dict)
    open: bool = False
    "Whether the call also passes `*args` or `**kwargs`, which may contain arguments that are not listed."
    dtype: str | None = None
    "The dtype of the first tensor argument (`float32`), if known."
    inside: frozenset[str] = frozenset()
    "The full names of the context managers that are entered around the call."
    torch: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a call. It holds if all its parts hold.

    `given`: the call passes one of these parameters, and the argument is not a literal `None`. `absent`: the call
    passes none of these parameters. `kinds`: the argument for a parameter has one of these kinds. `literals`: the
    argument is one of these literal values. `same`: the arguments for these parameters have the same source code.
    `dtypes`: the first tensor argument has one of these dtypes. `inside`: the call is inside one of these context
    managers. `torch`: the version of torch is in this range (`>=2.12`).
    """

    given: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    literals: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    same: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    torch: str | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of an op. `rule` is None if the effect is harmless in a graph (a draw from a registered generator, for
    example)."""

    kind: EffectKind
    rule: str | None
    how: str
    "The `how` of the event that scan emits for the effect (events.py)."
    when: Condition | None = None
    unless: Condition | None = None
    sometimes: bool = False
    "Whether the effect depends on sizes or values that a call does not show. Such an effect is never certain."
    anywhere: bool = False
    """Whether the effect occurs on any device, even without tensors. Otherwise, the effect needs a tensor on an
    accelerator."""
    pageable: bool = False
    """Whether a copy of pageable memory is the operation's first forbidden action.

    PyTorch refuses such a copy before it calls CUDA.
    """
    only_if_certain: bool = False
    "Whether the effect is included only if it is certain. Few calls with unknown arguments really have such an effect."


@dataclass(frozen=True, slots=True)
class Hit:
    """An effect of a call. It is certain, or only possible if it depends on an unknown argument."""

    effect: Effect
    certain: bool


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an op.

    Some kinds are tensors on the device that the op's `placement` names. `mask` has the dtype bool, `int` and `float`
    have the dtype of this name, `same` has the dtype of the first argument, and `tensor` has an unknown dtype. A
    `reduction` is a 0-d tensor with values of kind `of`. `self` is the first argument itself, as for in-place methods.
    `tuple` has `elements`; a single element stands for any number of elements. `host` and `shape` are Python values.
    `object` is a value that may contain device tensors.
    """

    kind: ResultKind
    of: ResultKind = "tensor"
    elements: tuple[ResultKind, ...] = ()
    ndim: int | None = None
    "The number of dimensions of this result, if it differs from the entry's."


@dataclass(frozen=True, slots=True)
class ResultCase:
    when: Condition
    result: Result


@dataclass(frozen=True, kw_only=True)
class Op:
    """One entry of the table. The class has no slots, so that it can cache properties that are needed for every
    call."""

    aten: str | None
    "The operation: `aten::nonzero`. It is None for a function that exists only in Python."
    overload: str | None
    """None stands for every overload that has no separate entry. "" is the overload without a name."""
    python: tuple[str, ...]
    params: tuple[str, ...] = ()
    """The names of the parameters in positional order. `a|b` has two names. A final `size*` takes all remaining
    arguments."""
    effects: tuple[Effect, ...] = ()
    result: Result
    cases: tuple[ResultCase, ...] = ()
    "Cases in which the result differs. The first case that certainly holds replaces `result`."
    placement: Placement = "same"
    """The device of the result.

    `same` is the device of the first tensor. `argument` is for a factory: the result is on the device that the argument
    `device` names, or on the host without this argument. The other values are fixed devices.
    """
    mutates: tuple[str, ...] = ()
    view: bool = False
    "Whether the result shares its storage with the first argument. If so, nothing is launched."
    pointwise: bool = False
    "Whether the result has the broadcast shape of the tensor arguments. Then 0-d tensors give a 0-d result."
    valueless: bool = False
    "Whether the operation uses only the shape, dtype and device of its arguments, as `zeros_like` does."
    launches: bool = True
    "Whether anything runs on the device. `empty` and views launch nothing."
    ndim: int | Literal["size", "same", "one-more"] | None = None
    """The number of dimensions of the result.

    It is a number, the length of the given `size`, or the number of dimensions of the first argument. It is None if it
    is unknown.
    """
    attribute: bool = False
    "Whether the operation is an attribute of a tensor, which is read without a call."
    tensor_hint: TensorHint | None = None
    "The values that the use of this method or attribute proves to be tensors, or None."
    copies_values: bool = False
    "Whether the result is made from Python values, as in `torch.tensor([1, 2])`. Then a number gives a 0-d tensor."
    takes_tensor: bool = True
    "Whether the first argument is a tensor or a list of tensors."
    host_arguments: HostArguments = "none"
    host_results: tuple[int, ...] = ()
    "The positions of results that are always on the host."
    checks_on_cpu: bool = False
    "Whether the operation checks values only on the CPU. To check values, it has to read them."
    sums_in_any_order: bool = False
    "Whether the operation sums floats in varying order on CUDA (atomics). If so, the last bits differ from run to run."
    no_kernel: tuple[str, ...] = ()
    "The dtypes (`int64`) of the first tensor for which CUDA has no kernel, although the CPU has one."
    basis: Basis
    evidence: tuple[str, ...] = ()
    "The names of snippets in rules/ops/torch-X.Y.json."

    @cached_property
    def is_factory(self) -> bool:
        """Whether the operation makes a tensor from sizes and values, as `zeros` does.

        The device of the result then does not depend on the devices of the arguments.
        """
        return any(effect.how == "factory" for effect in self.effects)

    @cached_property
    def reads_clock(self) -> bool:
        """Whether the operation's result is a host value that differs from step to step."""
        return any(effect.kind == "host-value" for effect in self.effects)

    @cached_property
    def compares_texts(self) -> bool:
        """Whether an effect depends on the source code of arguments."""
        return any(condition.same for condition in self._conditions)

    @cached_property
    def asks_contexts(self) -> bool:
        """Whether an effect depends on the context managers around the call."""
        return any(condition.inside for condition in self._conditions)

    @property
    def _conditions(self) -> Iterator[Condition]:
        for effect in self.effects:
            yield from (one for one in (effect.when, effect.unless) if one is not None)

    @cached_property
    def _places(self) -> Mapping[str, tuple[int, bool, Sequence[str]]]:
        """Name of a parameter -> its position, whether it takes all remaining arguments, and all names of this
        parameter."""
        places: dict[str, tuple[int, bool, Sequence[str]]] = {}
        for position, declared in enumerate(self.params):
            names = declared.removesuffix("*").split("|")
            for name in names:
                places.setdefault(name, (position, declared.endswith("*"), names))
        return places

    def effects_of(self, call: Call) -> tuple[Hit, ...]:
        """Return the effects that a call has or may have."""
        hits = []
        for effect in self.effects:
            wanted = True if effect.when is None else self._holds(effect.when, call)
            spared = False if effect.unless is None else self._holds(effect.unless, call)
            certain = wanted is True and spared is False and not effect.sometimes
            if certain or (wanted is not False and spared is not True and not effect.only_if_certain):
                hits.append(Hit(effect, certain))
        return tuple(hits)

    def result_of(self, call: Call) -> Result:
        for case in self.cases:
            if self._holds(case.when, call):
                return case.result
        return self.result

    def arguments(self, call: Call, param: str) -> Sequence[Argument]:
        """Return the arguments that `call` passes for `param`, under any of its names. Only a `size*` may have several
        arguments.
        """
        position, takes_rest, names = self._places.get(param, (None, False, (param,)))
        if call.keywords:
            keyword = next((call.keywords[name] for name in names if name in call.keywords), None)
            if keyword is not None:
                return (keyword,)
        return () if position is None else call.positional[position : None if takes_rest else position + 1]

    def _holds(self, condition: Condition, call: Call) -> bool | None:
        parts = []
        if condition.given:
            parts.append(_any(self._given(call, param) for param in condition.given))
        if condition.absent:
            parts.append(_not(_any(self._given(call, param) for param in condition.absent)))
        for param, kinds in condition.kinds.items():
            parts.append(self._is(call, param, partial(_kind_among, kinds)))
        for param, values in condition.literals.items():
            parts.append(self._is(call, param, partial(_literal_among, values)))
        if condition.same:
            parts.append(self._same(call, condition.same))
        if condition.dtypes:
            parts.append(None if call.dtype is None else call.dtype in condition.dtypes)
        if condition.inside:
            parts.append(not call.inside.isdisjoint(condition.inside))
        if condition.torch is not None:
            parts.append(None if call.torch is None else version_matches(call.torch, condition.torch))
        return _not(_any(_not(part) for part in parts))

    def _given(self, call: Call, param: str) -> bool | None:
        arguments = self.arguments(call, param)
        if not arguments:
            return None if call.open else False
        return not all(argument.kind == "none" or argument.literal is None for argument in arguments)

    def _is(self, call: Call, param: str, test: Callable[[Argument], bool | None]) -> bool | None:
        arguments = self.arguments(call, param)
        if not arguments:
            return None if call.open else False
        return _any(test(argument) for argument in arguments)

    def _same(self, call: Call, params: Sequence[str]) -> bool | None:
        texts = [argument.text for param in params for argument in self.arguments(call, param)]
        if len(texts) < len(params) or not all(texts):
            return None if call.open else False
        return len(set(texts)) == 1


def _any(answers: Iterable[bool | None]) -> bool | None:
    found: bool | None = False
    for answer in answers:
        if answer:
            return True
        if answer is None:
            found = None
    return found


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _kind_among(kinds: Sequence[str], argument: Argument) -> bool | None:
    if argument.kind is None:
        return None
    return argument.kind in kinds or (argument.kind == "mask" and "tensor" in kinds)


def _literal_among(values: Sequence[object], argument: Argument) -> bool | None:
    if argument.literal is UNKNOWN:
        return None
    return any(type(argument.literal) is type(value) and argument.literal == value for value in values)
