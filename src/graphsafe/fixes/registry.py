"""The fixes by their names in rule files."""

from __future__ import annotations

from collections.abc import Mapping

from graphsafe.fixes import (
    in_place,
    known_sizes,
    linear_algebra,
    literal_buffer,
    optimizer,
    pinned_copy,
    scalar_literal,
    scalar_store,
)
from graphsafe.fixes.code import Proposal
from graphsafe.rulebook.vocabulary import FixName

FIXES: Mapping[FixName, Proposal] = {
    "capturable": optimizer.capturable,
    "fill-element": scalar_store.fill,
    "full": scalar_literal.full,
    "hoist-literal": literal_buffer.hoist,
    "in-place": in_place.update,
    "non-blocking": pinned_copy.non_blocking,
    "nonzero-static": known_sizes.nonzero,
    "num-classes": known_sizes.classes,
    "output-size": known_sizes.repeats,
    "without-check": linear_algebra.without_check,
}
