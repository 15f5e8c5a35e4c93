"""Seeds the host generators that the user's code makes without a seed, so that they draw the same numbers in each
process.

`numpy.random.default_rng()` and `random.Random()` take their seed from the system. Without this module, two builds of a
target would have different data, and two calls of its refresh with the same number would give different inputs. So
replays could not be compared with the eager steps of another process.

`os.urandom`, `secrets` and the generator of `tempfile` still get their random numbers from the system. Programs use
them for unique names (`uuid4`), and several children run at the same time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from graphsafe.capture.shared.replaced import replaced

_BITS = 128


@contextmanager
def seeded_entropy(name: object) -> Iterator[None]:
    """In this block, seed each generator that is made without a seed. `name` determines the seeds."""
    numbers = random.Random(str(name))
    seed = random.Random.seed

    def seeded(generator: random.Random, a: Any = None, version: int = 2) -> None:
        seed(generator, numbers.getrandbits(_BITS) if a is None and not _is_for_names() else a, version)

    global_generator = getattr(random, "_inst", None)
    changes: list[tuple[Any, str, Callable[..., Any]]] = [(random.Random, "seed", seeded)]
    if global_generator is not None:
        changes.append((random, "seed", partial(seeded, global_generator)))
    bit_generators = sys.modules.get("numpy.random.bit_generator")
    if hasattr(bit_generators, "randbits"):
        changes.append((bit_generators, "randbits", numbers.getrandbits))
    with replaced(*changes):
        yield


def _is_for_names() -> bool:
    """Return whether a generator is being made for the names of temporary files, which differ in each process."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "random":
        frame = frame.f_back
    return frame.f_globals.get("__name__") == "tempfile"
