"""Environments: the names of a function with their values. Environments are joined where branches or loop iterations
meet."""

from __future__ import annotations

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.values import NONE, Function, Tensor, Union, Value, options

Env = dict[str, Value]


def merge(envs: list[Env], fallback: Env) -> Env:
    if not envs:
        return fallback
    merged = envs[0]
    for env in envs[1:]:
        result = dict(merged)
        for name, a in merged.items():
            b = env.get(name)
            if b is a:
                continue
            if b is not None:
                result[name] = join(a, b)
            elif "." in name:
                del result[name]
        for name in env.keys() - merged.keys():
            if "." not in name:
                result[name] = env[name]
        merged = result
    return merged


def made_by_iteration(after: Env, iteration: Env) -> Env:
    """Return the environment after a `for` loop. `iteration` is the environment at the end of the loop's body.

    Nearly every `for` loop in a step has at least one iteration. So a tensor that the body makes counts as new after
    the loop.
    """
    made = dict(after)
    for name, value in iteration.items():
        joined = after.get(name)
        if type(value) is Tensor and type(joined) is Tensor and value.fresh and not joined.fresh:
            made[name] = replace(joined, fresh=True, attr=value.attr)
    return made


def binds_more_functions(before: Env, after: Env) -> bool:
    """Return whether some name in `after` may stand for a module-level function for which it cannot stand in `before`.
    Nested functions are ignored, because each iteration makes new function objects."""
    named = {name for name, value in after.items() if type(value) is Union and value != before.get(name)}
    return any(
        type(option) is Function and option.node is None and option not in options(before.get(name, NONE))
        for name in named
        for option in options(after[name])
    )
