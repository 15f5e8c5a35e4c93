"""Describes support for CUDA graphs in words: proven and declared, in vLLM's terms, SGLang's and plain ones."""

from __future__ import annotations

from graphsafe.report.model import Declared, Proven, Support
from graphsafe.report.text import bucket_name, count, listed

_MEANS = {
    "NEVER": ("no batch", "none: --disable-cuda-graph"),
    "UNIFORM_SINGLE_TOKEN_DECODE": ("batches of one token per request", "decode"),
    "UNIFORM_BATCH": ("batches of equally many tokens per request", "decode and target verify"),
    "ALWAYS": ("any batch, prefill and decode mixed", "decode, target verify and extend"),
}
"Level -> plain words, and SGLang's name for such graphs."


def support_texts(support: Support) -> list[str]:
    return [_proven(support.proven), _declared(support.declared)]


def _proven(proven: Proven | None) -> str:
    if proven is None:
        return "support proven: not known from these buckets"
    plain, sglang = _MEANS[proven.level]
    if proven.level == "UNIFORM_BATCH":
        plain += f", up to {count(proven.max_query_len or 0, 'token')}"
    if proven.level == "NEVER" and proven.buckets:
        ready = [bucket_name(axes) for axes in proven.buckets]
        plain = f"not all batches of the fewest tokens; ready: {listed(ready, most=8)}"
    return f"support proven: {proven.level}, {plain} (SGLang: {sglang})"


def _declared(declared: Declared | None) -> str:
    if declared is None:
        return "support declared: nothing"
    where = f" ({declared.where})" if declared.where else ""
    if declared.level is None:
        return f"support declared: not known, {declared.words}{where}"
    return f"support declared: {declared.level}, {_MEANS[declared.level][0]}; {declared.words}{where}"
