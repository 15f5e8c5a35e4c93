"""Looking for the names of tensors runs no code of the program's objects."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from graphsafe.run.child.names import elements_of, names_in, storage_number


def refuse(*_: object) -> Any:
    raise RuntimeError("nothing may ask this")


class HostileDict(dict[str, Any]):
    __iter__ = __len__ = keys = values = items = __getitem__ = refuse  # type: ignore[assignment]


class HostileList(list[Any]):
    __iter__ = __len__ = __getitem__ = __reversed__ = refuse  # type: ignore[assignment]


class Hostile:
    __getattr__ = __repr__ = __len__ = __bool__ = refuse  # type: ignore[assignment]
    __class__ = property(refuse)  # type: ignore[assignment]

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held


@pytest.mark.parametrize("make", [lambda tensor: HostileDict(held=tensor), Hostile])
def test_names_are_found_without_a_call_of_the_objects_methods(make: Any) -> None:
    tensor = torch.zeros(2)
    known = make(tensor)
    names = names_in([sys._getframe()])
    texts = {name.text for name in names[storage_number(tensor) or 0]}
    assert "tensor" in texts
    assert texts & {"known['held']", "known.held"}
    assert type(known) in (HostileDict, Hostile)


class Bank:
    weight = torch.zeros(2)


def test_tensors_of_classes_and_of_other_modules_have_names_that_can_be_looked_up_again() -> None:
    state = types.ModuleType("state")
    state.weight = torch.ones(2)  # type: ignore[attr-defined]
    held = Bank, state
    names = names_in([sys._getframe()])
    for text, owner in zip(("Bank.weight", "state.weight"), held, strict=True):
        old = owner.weight  # type: ignore[union-attr]
        (name,) = [one for one in names[storage_number(old) or 0] if one.text == text]
        assert name.now() is old
        owner.weight = torch.ones(3)  # type: ignore[union-attr]
        assert name.now() is not old and name.now() is owner.weight  # type: ignore[union-attr]


def test_elements_are_read_without_a_call_of_the_containers_methods() -> None:
    assert elements_of(HostileList([1, 2])) == (1, 2)
    assert elements_of(HostileDict(a=1)) == (1,)
    assert elements_of(Hostile(torch.zeros(1))) == ()
