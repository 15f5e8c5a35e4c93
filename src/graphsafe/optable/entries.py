"""An entry of the op table, and what it says of a call.

Conditions are data and are evaluated here as pure functions of how a call looks, three-valued: where a call leaves an
argument open (`*args`, a value of unknown kind) the answer is "perhaps", never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from graphsafe.versions import version_matches

EffectKind = Literal[
    "reads-host", "branches", "dynamic-shape", "copies", "allocates", "random", "hidden-sync", "waits", "host-value",
    "host-state",
]  # fmt: skip
"""`branches` reads the device to choose what runs; `waits` is an explicit wait or query; `host-value` a Python value
that differs from step to step, frozen in a graph; `host-state` counts on the host, where a replay does not count."""
ResultKind = Literal[
    "tensor", "mask", "int", "float", "same", "reduction", "host", "shape", "none", "tuple", "self", "object"
]
ArgumentKind = Literal[
    "tensor", "mask", "tensors", "host-tensor", "number", "bool", "string", "none", "sequence", "empty", "dtype",
    "device", "host-device", "other",
]  # fmt: skip
"""`tensor` is on the device, and so is `mask`, one of bool: a condition that names `tensor` holds for both. `sequence`
is a list or tuple, `empty` one with nothing in it, `tensors` one that holds device tensors (as the `indices` of an
index, a `mask` where it holds one).
`device` is an accelerator, `host-device` the CPU. The literal of a `dtype` is its name (`bool`)."""
Basis = Literal["measured", "tag", "documented", "schema"]
"""How an entry is known: run on a GPU; by PyTorch's op tags; by PyTorch's documentation and sources, not run; or its
schema alone, which says what it returns and nothing of waits."""
Placement = Literal["same", "argument", "host", "accelerator"]
TensorHint = Literal["value", "parameter", "step-input"]
"""What a use of the name shows to be a tensor: any value that nothing else is known of, only a parameter of hot code
(arrays share some names, but seldom are parameters there), or only what a step is given. Each includes the next."""
HostArguments = Literal["none", "scalars", "tensors"]
"""Which host tensors a device's kernel takes among its arguments: `scalars` are 0-d ones, as numbers."""


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
    "`None` where nothing is known of it."
    literal: Any = UNKNOWN
    text: str = ""
    "Its source text, for `same`; empty where there is none."


@dataclass(frozen=True, slots=True)
class Call:
    """How a call looks. `x.histc(8)` and `torch.histc(x, 8)` are the same: the receiver is the first argument."""

    positional: Sequence[Argument] = ()
    keywords: Mapping[str, Argument] = field(default_factory=dict)
    open: bool = False
    "It also passes `*args` or `**kwargs`, so that an argument not listed may still be given."
    dtype: str | None = None
    "Of the first tensor argument (`float32`), where it is known."


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds where every part holds.

    `given` any of these parameters is passed (and not as a literal `None`); `absent` none of them is; `kinds` the
    parameter is of one of these kinds; `literals` it is one of these literal values; `same` the named parameters have
    one source text; `dtypes` the first tensor argument has one of these.
    """

    given: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    literals: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    same: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that an op does. `rule` is `None` where the effect is harmless in a graph (a registered draw)."""

    kind: EffectKind
    rule: str | None
    how: str
    "The `how` of the event that scan emits for it (events.py)."
    when: Condition | None = None
    unless: Condition | None = None
    torch: str | None = None
    "Versions for which it holds (`>=2.6,<2.12`); `None` for all."
    sometimes: bool = False
    "Depends on sizes or values that no call shows: never certain."
    anywhere: bool = False
    "Holds wherever the tensors are, and without any; else one must be on a device."
    pageable: bool = False
    "Its first forbidden act is a copy of pageable memory, which PyTorch refuses before CUDA sees anything."
    only_if_certain: bool = False
    'Not worth a "perhaps": nearly every call whose arguments are not known is innocent of it.'


@dataclass(frozen=True, slots=True)
class Hit:
    """An effect that a call has: for certain, or where an open argument decides, perhaps."""

    effect: Effect
    certain: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What an op returns.

    Tensors of `placement`: `mask` of bool, `int`, `float`, `same` (values like the first argument's), `tensor` (dtype
    not known); `reduction` is 0-d, its values are `of`; `self` is the first argument itself (in-place methods). `tuple`
    unpacks into `elements`, of which a single one stands for any number. `host` and `shape` are Python values, `object`
    is one that may hold device tensors.
    """

    kind: ResultKind
    of: ResultKind = "tensor"
    elements: tuple[ResultKind, ...] = ()
    ndim: int | None = None
    "Where this case has another number of dimensions than the entry says."


@dataclass(frozen=True, slots=True)
class ResultCase:
    when: Condition
    result: Result


@dataclass(frozen=True, slots=True)
class Op:
    """One entry of the table."""

    aten: str | None
    "`aten::nonzero`; `None` for a function that exists in Python only."
    overload: str | None
    "`None` stands for every overload that has no entry of its own; `''` is the one without a name."
    python: tuple[str, ...]
    params: tuple[str, ...]
    "Parameter names in positional order; `a|b` where one has two names, a last `size*` takes all that are left."
    effects: tuple[Effect, ...]
    "With one for each parameter that takes a Python number: a device tensor given there is read back."
    result: Result
    cases: tuple[ResultCase, ...]
    "Where the result differs; the first that holds for certain wins over `result`."
    placement: Placement
    "`same` device as the first tensor; the `device` `argument` of a factory (the host without one); fixed otherwise."
    mutates: tuple[str, ...]
    "Parameters written in place."
    view: bool
    "The result shares storage with the first argument, and nothing is launched."
    pointwise: bool
    "The result has the broadcast shape of the tensor arguments: 0-d from 0-d."
    valueless: bool
    "Takes nothing from its arguments but shape, dtype and device (`zeros_like`)."
    launches: bool
    "Whether anything runs on the device (`empty` and views launch nothing)."
    ndim: int | Literal["size", "same", "one-more"] | None
    "Of the result: a number, that of the `size` given, or the first argument's; `None` where nothing is said."
    attribute: bool
    "Read of a tensor without a call."
    tensor_hint: TensorHint | None
    "Whether this method or attribute says of a value that it is a tensor."
    copies_values: bool
    "Makes its result of Python values (`torch.tensor([1, 2])`): 0-d of a number."
    takes_tensor: bool
    "Whether the first argument is a tensor or a list of them."
    host_arguments: HostArguments
    host_results: tuple[int, ...]
    "Positions of results that stay on the host, whatever the arguments are."
    checks_on_cpu: bool
    "Reads values to check them only where they are a CPU's."
    sums_in_any_order: bool
    "Float sums whose order, and so whose last bits, differ from run to run on CUDA (atomics)."
    basis: Basis
    evidence: tuple[str, ...]
    "Snippets of rules/ops/torch-X.Y.json."

    @property
    def is_factory(self) -> bool:
        """Whether it makes a tensor of sizes and values (`zeros`), so that tensors among them do not say where."""
        return any(effect.how == "factory" for effect in self.effects)

    def effects_of(self, call: Call, torch: str | None = None) -> tuple[Hit, ...]:
        """What this call does, under one torch version (any, if `None`)."""
        hits = []
        for effect in self.effects:
            if effect.torch is not None and torch is not None and not version_matches(torch, effect.torch):
                continue
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
        """What `call` passes for `param` (any of its names): one argument, several for a `size*`, or none."""
        for position, declared in enumerate(self.params):
            names = declared.removesuffix("*").split("|")
            if param in names:
                keyword = next((call.keywords[name] for name in names if name in call.keywords), None)
                if keyword is not None:
                    return (keyword,)
                return call.positional[position : None if declared.endswith("*") else position + 1]
        return (call.keywords[param],) if param in call.keywords else ()

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
    seen = list(answers)
    return True if True in seen else None if None in seen else False


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
