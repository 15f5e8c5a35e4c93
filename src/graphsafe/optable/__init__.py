"""The op table: what PyTorch's operations do to a capture, and what they return.

One table, `rules/ops/torch.json`, answers the scan, the step probe and the simulated device.
"""

from graphsafe.optable.entries import (
    UNKNOWN,
    Argument,
    ArgumentKind,
    Call,
    Effect,
    EffectKind,
    Hit,
    Op,
    Result,
    TensorHint,
)
from graphsafe.optable.table import OpTable, OpTableError, load_op_table

__all__ = [
    "UNKNOWN",
    "Argument",
    "ArgumentKind",
    "Call",
    "Effect",
    "EffectKind",
    "Hit",
    "Op",
    "OpTable",
    "OpTableError",
    "Result",
    "TensorHint",
    "load_op_table",
]
