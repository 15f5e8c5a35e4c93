"""Readable names of kernels; the symbols are those that an H200 reported (torch 2.11)."""

from __future__ import annotations

import pytest

from graphsafe.capture.parent.finding_table import what_was_frozen
from graphsafe.report.kernel_names import readable
from graphsafe.report.probes.twin import Difference

COSINE = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_15cos_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE0_clEvENKUl"
    "vE0_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_"
)
MEAN = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4ELi4EEEEEvT1_"
PRODUCT = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEE"
    "St5arrayIPcLm2EEEEviT0_T1_"
)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (COSINE, "vectorized_elementwise_kernel (cos_kernel_cuda)"),
        (MEAN, "reduce_kernel (MeanOps)"),
        (PRODUCT, "vectorized_elementwise_kernel (MulFunctor)"),
        ("aten::cat", "aten::cat"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("_Z3addPfS_", "_Z3addPfS_"),
        ("_Z9", "_Z9"),
    ],
)
def test_the_function_and_what_it_computes_are_shown(symbol: str, name: str) -> None:
    assert readable(symbol) == name


def test_a_sentence_names_both_kernels() -> None:
    text = what_was_frozen(Difference(2, "operation", COSINE, MEAN, COSINE))
    assert text == (
        " Here one capture has reduce_kernel (MeanOps) where a later one has vectorized_elementwise_kernel "
        "(cos_kernel_cuda)."
    )
