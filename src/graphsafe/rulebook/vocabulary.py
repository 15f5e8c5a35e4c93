"""The words of rule files: the events that scan emits, the words of their messages, and the fixes.

Each kind of event is listed here with the ways in which it happens. The words for Alloc, Rng, StreamOp and AttrWrite
are explained in the rules that match these events.

HostRead    method (`.item() .tolist()`), cast (`int float bool complex`, `math.*`, `operator.index`), index (a 0-d
            device tensor as an index), format (print, f-string, str, logging), hidden (an op of the table that waits
            inside), nested (an op that makes a nested tensor from a mask), scaler (a gradient scaler that asks whether
            gradients are infinite), finite-norm (a norm that must be finite), library (a known library call that
            waits), inside (only from capture: a function of torch reads the value)
Branch      if, while, assert, ifexp, and, or, not, in, compare, max, min, any, all, sorted, filter, operator, inside
Extent      op (an op whose output size depends on data), mask (`x[mask]`), mask-store (`x[mask] = tensor`), slice,
            range, size (a size argument of a factory or view), narrow, split
Transfer    to-host, literal (Python values to a device tensor), index (`x[[0, 1]]`, a host index tensor), blocking
            (pageable, or pinned without `non_blocking=True`)
Store       scalar (`buf[i] = 7`), host-tensor (`buf[i] = torch.tensor(7)`), by-index (`buf[index_tensor] = 7`),
            host-part (`buf[0:2] = torch.tensor([7, 8])`)
Call        the pattern, from a rule's `call`, that the called name matches
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

EventKind = Literal[
    "HostRead", "Branch", "Extent", "Transfer", "Store", "Alloc", "Rng", "StreamOp", "AttrWrite", "Call"
]
HOWS: Mapping[str, frozenset[str]] = {
    kind: frozenset(hows.split())
    for kind, hows in {
        "HostRead": "method cast index format hidden nested scaler finite-norm library inside",
        "Branch": "if while assert ifexp and or not in compare max min any all sorted filter operator inside",
        "Extent": "op mask mask-store slice range size narrow split",
        "Transfer": "to-host literal index blocking",
        "Store": "scalar host-tensor by-index host-part",
        "Alloc": "factory like new clone growing outgrown appended pinned leaking",  # leaking: only from capture
        "Rng": "private-generator reseed state host-random seeded-again",
        "StreamOp": "synchronize query elapsed-time barrier no-stream no-warmup unjoined foreign-stream literal-device "
        "swallowed capturing-branch autocast-around wait-between-graphs never-replayed same-inputs "
        "captured-again kept-alone made-late read-before-join waits-for-itself discarded",
        "AttrWrite": "lazy-init host-state rebound swapped cached output-kept output-awaited not-replayed derived "
        "input-rebound partial-refresh not-refreshed copied-once weights-rebound grads-dropped freed rate-changed "
        "number-changed counted begun-in-capture adopted key-lacks made-twice refilled host-refilled host-read-early "
        "source-refilled read-early read-aside given-early taken-early narrowed optimizer rate-decay declared "
        "over-declared under-declared "
        "buckets departed late pooled rate by-call",  # this line comes only from capture
    }.items()
}
"Event kind -> the words for the ways in which it happens. For `Call`, the rules themselves list the patterns."
WORDS: Mapping[str, str] = {
    "expr": "the source code",
    "value": "the known facts about the value",
    "op": "the operation, if the op table contains it",
    "attribute": "for AttrWrite: the attribute that is written",
    "uses": "for AttrWrite host-state: the lines that use a host number",
    "used_as": "for AttrWrite host-state: how these lines use it",
    "codes": "for AttrWrite declared: the rules that contradict a declaration",
}
"Placeholder in a message -> the description of the word that replaces it."
FIXES: Mapping[str, str] = {
    "capturable": "optimizer.capturable",
    "fill-element": "scalar_store.fill",
    "full": "scalar_literal.full",
    "hoist-literal": "literal_buffer.hoist",
    "in-place": "in_place.update",
    "non-blocking": "pinned_copy.non_blocking",
    "nonzero-static": "known_sizes.nonzero",
    "num-classes": "known_sizes.classes",
    "output-size": "known_sizes.repeats",
    "without-check": "linear_algebra.without_check",
}
"Name of a fix -> the module of graphsafe.fixes and the function in it that makes the fix."
