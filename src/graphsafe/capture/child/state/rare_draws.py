"""Sets generators on the host so that they next draw their lowest or their highest numbers. A step then takes branches
such as `if random.random() < 0.001:`, which it seldom takes otherwise.

Only some numbers are drawn like this, and then the generators go on as usual. So a loop that draws until a number fits
still ends.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Any

import torch

_HIGHEST = 0x12DD9BB3
"The word of a Mersenne Twister's state from which it makes a number whose bits are all ones. Zero gives zero."
_WORDS = 32
"The number of words that are changed in the state of a Mersenne Twister. A float takes one or two of them."
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"PCG64 computes its next state from the last one: state * multiplier + increment, modulo 2**128."
_HEAD, _STATE = 24, 624
"""Torch saves the state of a CPU generator as bytes. The first ones hold the seed, the number of words that are left,
and the index of the next word. Then there are 624 words of eight bytes."""


def draw_at_an_end(highest: bool, others: Iterable[Any] = ()) -> None:
    """Set the global generators of Python, NumPy and torch (for the CPU), and `others`: generators that a step holds.
    Generators of other kinds are left as they are."""
    word = _HIGHEST if highest else 0
    _set_python(random, word)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        _set_numpy(numpy.random, word)
    _set_torch(torch.default_generator, word)
    for one in others:
        if isinstance(one, random.Random):
            if not isinstance(one, random.SystemRandom):
                _set_python(one, word)
        elif isinstance(one, torch.Generator):
            if one.device.type == "cpu":
                _set_torch(one, word)
        elif isinstance(one, numpy.random.RandomState):
            _set_numpy(one, word)
        elif one.bit_generator.state["bit_generator"] == "PCG64":
            _set_pcg64(one, 2**64 - 1 if highest else 0)


def _set_python(generator: Any, word: int) -> None:
    kind, words, _ = generator.getstate()
    generator.setstate((kind, (*[word] * _WORDS, *words[_WORDS:-1], 0), None))


def _set_numpy(generator: Any, word: int) -> None:
    name, keys, *_ = generator.get_state()
    if name == "MT19937":
        keys[:_WORDS] = word
        generator.set_state((name, keys, 0, 0, 0.0))


def _set_pcg64(generator: Any, number: int) -> None:
    """Let PCG64 draw this number of 64 bits once. A state whose upper half is 0 gives its lower half."""
    state = generator.bit_generator.state
    before = (number - state["state"]["inc"]) * pow(_MULTIPLIER, -1, 2**128) % 2**128
    state["state"]["state"], state["has_uint32"] = before, 0
    generator.bit_generator.state = state


def _set_torch(generator: torch.Generator, word: int) -> None:
    state = generator.get_state()
    if len(state) < _HEAD + 8 * _STATE:
        return
    head = state[8:_HEAD].view(torch.int32)
    head[0] = _STATE  # the words that are left
    head[2:] = 0  # the index of the next word
    state[_HEAD : _HEAD + 8 * _WORDS].view(torch.int64).fill_(word)
    generator.set_state(state)
