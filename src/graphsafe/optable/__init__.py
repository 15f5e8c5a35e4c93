"""The op table: the effects of PyTorch's operations on a capture, and their results.

The scan, the step probe and the simulated device all use the table `rules/ops/torch.json`.
"""

from graphsafe.optable.entries import UNKNOWN as UNKNOWN
from graphsafe.optable.entries import Argument as Argument
from graphsafe.optable.entries import ArgumentKind as ArgumentKind
from graphsafe.optable.entries import Call as Call
from graphsafe.optable.entries import Condition as Condition
from graphsafe.optable.entries import Effect as Effect
from graphsafe.optable.entries import EffectKind as EffectKind
from graphsafe.optable.entries import Hit as Hit
from graphsafe.optable.entries import Op as Op
from graphsafe.optable.entries import Result as Result
from graphsafe.optable.entries import TensorHint as TensorHint
from graphsafe.optable.table import OpTable as OpTable
from graphsafe.optable.table import OpTableError as OpTableError
