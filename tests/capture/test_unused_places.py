"""Arguments of kernels: places that PyTorch does not fill hold old addresses of the host's stack."""

from __future__ import annotations

import ctypes

import pytest

pytest.importorskip("torch")

from graphsafe.capture.device.cuda.unused_places import without_unused_places

STALE = 0x7F00_DEAD_0000
KERNEL = "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_{}EEENS1_7FunctorE"
FOREACH = KERNEL.format("18TensorListMetadataILi2")
FUSED = KERNEL.format("32FusedOptimizerTensorListMetadataILi4")
SCALARS = KERNEL.format("28TensorListScalarListMetadataIfLi3")


def structure(lists: int, room: int, blocks: int, index: type, *more: tuple[str, type]) -> type[ctypes.Structure]:
    """A kernel's argument, field by field as PyTorch declares it."""

    class Argument(ctypes.Structure):
        _fields_ = [
            ("addresses", (ctypes.c_uint64 * room) * lists),
            ("elements", ctypes.c_int64 * room),
            *((name, kind * room) for name, kind in more),
            ("tensor", index * blocks),
            ("part", ctypes.c_int * blocks),
        ]

    return Argument


def with_first(kind: type[ctypes.Structure]) -> type[ctypes.Structure]:
    class Argument(ctypes.Structure):
        _fields_ = [*kind._fields_, ("first", ctypes.c_int)]

    return Argument


CASES = [
    (FOREACH, with_first(structure(2, 64, 320, ctypes.c_uint8))),
    (FOREACH, with_first(structure(2, 448, 2240, ctypes.c_uint16))),
    (FUSED, with_first(structure(4, 36, 320, ctypes.c_uint8, ("steps", ctypes.c_uint64)))),
    (SCALARS, structure(3, 48, 320, ctypes.c_uint8, ("scalars", ctypes.c_float))),
]


@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_places_without_a_tensor_are_cleared(kernel: str, kind: type[ctypes.Structure]) -> None:
    argument = kind()
    for column in argument.addresses:
        column[:] = [STALE] * len(column)
        column[:3] = [0x1000, 0x2000, 0x3000]
    argument.tensor[:4] = [0, 1, 1, 2]
    argument.tensor[4] = 9  # of an earlier launch with more blocks
    cleared = kind.from_buffer_copy(without_unused_places(kernel, (4, 1, 1), bytes(argument)))
    for column in cleared.addresses:
        assert list(column[:4]) == [0x1000, 0x2000, 0x3000, 0]
        assert STALE not in list(column)
    assert list(cleared.tensor) == list(argument.tensor)


def test_other_arguments_stay_as_they_are() -> None:
    words = (STALE).to_bytes(8, "little") * 10
    assert without_unused_places("_ZN2at6native29vectorized_elementwise_kernel", (4, 1, 1), words) == words
    assert without_unused_places(FOREACH, (4, 1, 1), words) == words  # no layout that is known


class Reduction(ctypes.Structure):
    """The end of the argument of a kernel that reduces."""

    _fields_ = [
        ("before", ctypes.c_uint64 * 40),
        ("source", ctypes.c_uint64),
        ("destinations", ctypes.c_uint64 * 2),
        ("buffers", ctypes.c_uint64 * 3),
        ("base", ctypes.c_int64),
        ("accumulates", ctypes.c_bool),
        ("is_final", ctypes.c_bool),
        ("number", ctypes.c_int),
    ]


@pytest.mark.parametrize(("number", "second"), [(1, 0), (2, STALE)])
def test_a_reduction_with_one_result_has_no_second_one(number: int, second: int) -> None:
    name = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfEEjfLi4ELi4EEEEEvT1_"
    given = Reduction(source=0x1000, number=number)
    given.destinations[:] = [0x2000, STALE]
    cleared = Reduction.from_buffer_copy(without_unused_places(name, (4, 1, 1), bytes(given)))
    assert list(cleared.destinations) == [0x2000, second]
    assert (cleared.source, cleared.number) == (0x1000, number)


class Joined(ctypes.Structure):
    _fields_ = [("tensors", ctypes.c_uint64 * 128), ("offsets", ctypes.c_uint32 * 128)]


def test_only_tensors_that_are_joined_count() -> None:
    name = "_ZN2at6native12_GLOBAL__N_119CatArrayBatchedCopyIfjEEvPT_NS1_25CatArrInputTensorMetadataIS3_T0_Li128ELi1EEE"
    given = Joined()
    given.tensors[:] = [0x1000, 0x2000, *[STALE] * 126]
    cleared = Joined.from_buffer_copy(without_unused_places(name, (64, 2, 1), bytes(given)))
    assert list(cleared.tensors[:3]) == [0x1000, 0x2000, 0] and STALE not in list(cleared.tensors)


class Calculator(ctypes.Structure):
    """Strides of two tensors; a pair of numbers can look like an address."""

    _fields_ = [
        ("dimensions", ctypes.c_int),
        ("divisors", ctypes.c_uint32 * (3 * 25)),
        ("strides", (ctypes.c_uint32 * 2) * 25),
    ]


class Elementwise(ctypes.Structure):
    _fields_ = [("offsets", Calculator), ("tensors", ctypes.c_uint64 * 2), ("scalar", ctypes.c_float)]


def test_strides_of_dimensions_that_a_tensor_lacks_do_not_count() -> None:
    name = "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIfEEvT_EEviT1_"
    given = Elementwise.from_buffer_copy(b"\x7f" * ctypes.sizeof(Elementwise))
    given.offsets.dimensions, given.tensors[:], given.scalar = 2, [0x1000, 0x2000], 0.5
    cleared = Elementwise.from_buffer_copy(without_unused_places(name, (4, 1, 1), bytes(given)))
    assert list(cleared.offsets.divisors) == [0x7F7F7F7F] * 6 + [0] * 69
    assert [list(one) for one in cleared.offsets.strides] == [[0x7F7F7F7F] * 2] * 2 + [[0, 0]] * 23
    assert (list(cleared.tensors), cleared.scalar) == ([0x1000, 0x2000], 0.5)
