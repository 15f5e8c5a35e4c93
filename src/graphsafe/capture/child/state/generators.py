"""Random generators on the host: the process's global generators, and generators that a step holds (`random.Random` and
the two kinds of numpy). Also finds whether two generators of a device share a state."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

_APART = 4
"CUDA accepts only offsets that are multiples of four."


def seed_host(value: int) -> None:
    """Seed the global generators that torch does not seed."""
    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value % 2**32)


def is_host_generator(kind: type) -> bool:
    if issubclass(kind, random.Random):
        return True
    drawn = sys.modules.get("numpy.random")
    return drawn is not None and issubclass(kind, (drawn.Generator, drawn.RandomState))


def seed(generator: Any, value: int) -> None:
    if isinstance(generator, random.Random):
        random.Random.seed(generator, value)
        return
    numpy: Any = sys.modules["numpy"]
    bits = generator.bit_generator if isinstance(generator, numpy.random.Generator) else generator._bit_generator
    bits.state = type(bits)(value % 2**32).state


def state_of(generator: Any) -> Any:
    """Return the state, to be given to `set_state`; None for a generator without one (`random.SystemRandom`)."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return random.Random.getstate(generator)
    numpy: Any = sys.modules["numpy"]
    return generator.bit_generator.state if isinstance(generator, numpy.random.Generator) else generator.get_state()


def set_state(generator: Any, state: Any) -> None:
    if state is None:
        return
    if isinstance(generator, random.Random):
        random.Random.setstate(generator, state)
    elif isinstance(generator, sys.modules["numpy"].random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def share_state(one: torch._C.Generator, other: torch._C.Generator) -> bool:
    """Return whether two generators of a device share one state: an offset that is set in one generator is then set in
    both."""
    own, theirs = one.get_offset(), other.get_offset()
    one.set_offset(theirs + _APART)
    is_shared: bool = other.get_offset() == theirs + _APART
    one.set_offset(theirs if is_shared else own)
    return is_shared
