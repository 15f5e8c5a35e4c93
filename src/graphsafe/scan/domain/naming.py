"""Hints that a name gives about a tensor: its device, whether it is a mask, and whether it stays on the host."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.values import (
    Dict,
    Instance,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    Where,
    depends_on_step,
    of_elements,
)

HOST_NAME = re.compile(r"(^|_)(cpu|host|np|numpy|pinned|pin|(?<!edge_)list)(_|$|s$)")
"Matches words that engines use in names of the host's copy of a tensor. An `edge_list` is a tensor of indices."
_LIST = re.compile(r"(^|_)lists?(?=_|$)")
SIDE_NAME = re.compile(r"(^|_)(cpu|host)(_|$)")
"""Matches the words of HOST_NAME that show a host tensor in any case. If other facts about the value are known, the
other words of HOST_NAME are ignored, because they may also name a list."""
GRID_NAME = re.compile(r"(^|_)(grid_?(thw|hw|sizes?)s?|image_sizes?|spatial_shapes?)$")
"""Matches names of image sizes. Engines keep these sizes on the host, but the library transformers sends them to the
device."""
SIZES_NAME = re.compile(r"(^|_)(image|img|target|tgt|canvas|orig|original)_(sizes?|shapes?)$")
"Matches names of sizes. A tensor with such a name counts as a device tensor only if other evidence shows its device."
MASK_NAME = re.compile(r"^(?!(?:use|return|apply|need|with|enable|output|should)s?_)(?:.*_)?mask(s|_bool)?$")
"Matches names of masks. `use_attention_mask` does not match, because it is the name of a switch."
BY_MODE = re.compile("dropout|batch_?norm|drop_?path|^training$", re.I)
"Matches names of layers that behave differently in training mode, and the name of the mode itself."
QUESTION_NAME = re.compile(r"_?(is|has|are|was)_")
"Matches names such as `is_done`, which ask a question. A tensor with such a name is a mask."

LOADER_NAME = re.compile(
    r"(^loader|(^|_)((data|train|training)_?(data_?)?loader|(data|train)_?dl))s?(_train(ing)?)?$"
    r"|(^|_)(data|train|loader)_?iter(ator)?$"
)
"Matches names of data loaders and of their iterators. A `weight_loader` or a `model_loader` is not a data loader."
_MOVING = re.compile(r"prepare|setup|device|cuda|gpu|prefetch", re.I)
"Matches names of functions that return loaders. Such a loader may move its batches to the device."
BATCHES = of_elements("iterator", Unknown(loaded=True))
"A data loader. Its batches are tensors on the host, or hold such tensors."
INPUTS_NAME = "batched_inputs"
"""The name that detectron2 (0.6) gives to the input of its models: dicts that hold host tensors. The models move the
tensors themselves."""

CONTAINER_METHODS = frozenset(name for kind in (dict, list, set, str, bytes) for name in dir(kind))
"Names of methods of Python's containers and strings. Objects of other classes may have methods with these names too."

MODEL = "model|net|network|unet|transformer|dit|lm|llm|draft|policy|actor|decoder|denoiser|denoise_fn|generator"
"A pattern for the names that step loops usually give to models."


def where_of(name: str, otherwise: Where) -> Where:
    return "host" if HOST_NAME.search(name) else otherwise


def names_host(node: ast.AST) -> bool:
    """Return whether a name says that the value is on the host: `batch.seq_lens_cpu[0]`, `table["lens_cpu"]`."""
    while isinstance(node, ast.Subscript):
        key = node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and HOST_NAME.search(key.value):
            return True
        node = node.value
    return HOST_NAME.search(last_name(node)) is not None


def last_name(node: ast.AST) -> str:
    """Return `b` for `a.b`, `a` for `a`, and an empty string for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def bound_to(value: Value, name: str) -> Value:
    """Return a value under a new name. If nothing else shows the device of a tensor, the name suggests the device."""
    kind = type(value)
    if kind is Unknown:
        return Unknown(value.step, host=True) if _hints_of_name(name)[2] else value  # type: ignore[union-attr]
    if (kind is Union or kind is Dict or kind is Sequence) and _hints_of_name(name)[2]:
        return placed(value, name, depends_on_step(value), "host")
    if type(value) is not Tensor or value.name == name:
        return value
    where, maybe_host, aside = _hints_of_name(name)
    is_open = value.where == "any"
    # This code runs for each assignment of a tensor, and `replace` would take four times as long.
    return Tensor(
        where if is_open else "host" if aside else value.where, value.dtype, value.ndim, value.pinned, value.step,
        value.literal, name, value.attr, value.fresh, value.certain, value.maybe_host or (is_open and maybe_host),
        where == "host" if is_open else value.maybe_pinned,
    )  # fmt: skip


def known_by(value: Unknown, name: str) -> Value:
    """Return the value of an unknown attribute or argument, judging by its name: a data loader, a value that stays on
    the host, or else the value itself. Loaders with other names may move their batches to the device, as accelerate's
    do."""
    if name == INPUTS_NAME:
        return Unknown(value.step, loaded=True)
    is_loader = not value.device and not value.loaded and LOADER_NAME.search(name) is not None
    return BATCHES if is_loader else bound_to(value, name)


def makes_loader(node: ast.expr, name: str) -> bool:
    """Return whether `name = node` is a call that makes a data loader, judging by the name. The result is False for a
    call such as accelerate's `prepare(loader)`, because the returned loader moves its batches to the device."""
    if not isinstance(node, ast.Call) or LOADER_NAME.search(name) is None:
        return False
    return _MOVING.search(last_name(node.func)) is None


@lru_cache(maxsize=4096)
def _hints_of_name(name: str) -> tuple[Where, bool, bool]:
    return where_of(name, "any"), GRID_NAME.search(name) is not None, SIDE_NAME.search(name) is not None


def placed(value: Value, name: str, step: bool, where: Where) -> Value:
    """Return the value that an annotation promises. Its tensors are on the device that the value's name or `where`
    suggests."""
    if type(value) is Tensor:
        dtype = value.dtype or ("bool" if MASK_NAME.search(name) and name != "attention_mask" else None)
        sizes = GRID_NAME.search(name) or (where == "device" and SIZES_NAME.search(name))
        place = where_of(name, value.where if value.where == "host" else where)
        return replace(
            value, name=name, step=step, where=place, dtype=dtype, maybe_host=bool(sizes), maybe_pinned=place == "host"
        )
    if type(value) is Union:
        return join_all(placed(option, name, step, where) for option in value.options)
    if type(value) is Sequence:
        parts = tuple(placed_in_list(item, name, step, where) for item in value.items) if value.items else None
        return replace(value, elem=placed_in_list(value.elem, name, step, where), items=parts)
    if type(value) is Dict:
        items = tuple((key, placed(item, name, step, where)) for key, item in value.items)
        return replace(value, elem=placed(value.elem, name, step, where), items=items)
    if type(value) is Instance and step:
        return replace(value, step=True)
    return value


def placed_in_list(value: Value, name: str, step: bool, where: Where) -> Value:
    """Do the same as `placed` for an element of a list, or for a value that may be a list of tensors. The word `list`
    in the name does not mean the host here: in `features_list: list[Tensor]` and in `torch.cat(features_list)`, it says
    only that there is a list."""
    found = placed(value, _LIST.sub("", name), step, where)
    return replace(found, name=name) if type(found) is Tensor else found
