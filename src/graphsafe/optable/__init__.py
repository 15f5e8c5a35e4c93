"""The op table: the effects of PyTorch's operations on a capture, and their results.

One table, `rules/ops/torch.json`, answers the scan, the step probe and the simulated device.
"""

from graphsafe.optable.entries import (
    UNKNOWN,
    Argument,
    ArgumentKind,
    Call,
    Condition,
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
    "Condition",
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
