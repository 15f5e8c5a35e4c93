import functools
import itertools


def annealed(start: float, rate: float):
    """Hand the wrapped method a damping that shrinks from call to call."""

    def decorate(fn):
        calls = itertools.count()

        @functools.wraps(fn)
        def inner(self, x):
            return fn(self, x, damping=start / (1.0 + rate * next(calls)))

        return inner

    return decorate
