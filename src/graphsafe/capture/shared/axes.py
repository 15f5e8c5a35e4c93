"""Recognises bucket axes by the names that engines use: the number of requests, and the number of tokens of each
request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

BATCH = ("batch", "batch_size", "bs", "num_reqs", "num_requests", "num_seqs")
QUERY = ("q_len", "query_len", "qlen", "max_query_len", "tokens_per_request", "num_tokens_per_req", "max_seqlen_q")

Query = int | Literal["mixed"] | None


def batch_axis(axes: Mapping[str, Any]) -> str | None:
    """Return the name of the axis that is the number of requests, or None."""
    return next((name for name in BATCH if _is_count(axes.get(name))), None)


def query_of(axes: Mapping[str, Any]) -> Query:
    """Return how many tokens each request of the bucket has. Return `mixed` if the axis for this number has a value
    that is not a number (`q_len=mixed`). Return 1 if there is only a batch axis, as in decoding. Return None if no axis
    shows how many tokens a request has."""
    for name in QUERY:
        if name in axes:
            return axes[name] if _is_count(axes[name]) else "mixed"
    return 1 if batch_axis(axes) is not None else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
