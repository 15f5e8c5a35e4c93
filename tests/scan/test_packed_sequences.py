"""Packed sequences: `batch_sizes` is always on the host, the other fields are where the data is."""

from __future__ import annotations

import pytest

from .conftest import Scan

IMPORTS = """\
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

"""
RECURRENT = """\
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{layer}(8, 8, batch_first=True)

    def forward(self, x: torch.Tensor, lengths_cpu: torch.Tensor):
        packed = pack_padded_sequence(x, lengths_cpu, batch_first=True, enforce_sorted=False)
        out = self.rnn(packed)[0].to(x.device)
        return {result}
"""
UNPACKED = """\
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, packed{annotation}, h: torch.Tensor):
        assert isinstance(packed, PackedSequence)
        rows, sizes, order, back = packed
        start = 0
        for size in {sizes}:
            h[:size] = self.cell(rows[start : start + size], h[:size])
            start += size
        return PackedSequence(h, sizes, order, back), h[back]
"""


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    ("result", "codes"),
    [
        ("x[: out.batch_sizes[0]]", []),
        ("x * out.batch_sizes.max().item()", []),
        ("x * pad_packed_sequence(out)[1].max().item()", []),
        ("x if isinstance(out, PackedSequence) else x[0].item()", []),
        ("x * out.data.max().item()", ["GS101"]),
        ("x * out[2].max().item()", ["GS101"]),
        ("x * out.unsorted_indices.max().item()", ["GS101"]),
        ("x * pad_packed_sequence(out)[0].max().item()", ["GS101"]),
    ],
)
def test_the_result_of_a_recurrent_layer(scan: Scan, layer: str, result: str, codes: list[str]) -> None:
    assert [code for code, _ in scan(IMPORTS + RECURRENT.format(layer=layer, result=result))] == codes


@pytest.mark.parametrize("annotation", ["", ": PackedSequence"])
@pytest.mark.parametrize(("sizes", "found"), [("sizes", False), ("order", True)])
def test_a_module_that_unpacks_its_input(scan: Scan, annotation: str, sizes: str, found: bool) -> None:
    codes = {code for code, _ in scan(IMPORTS + UNPACKED.format(annotation=annotation, sizes=sizes))}
    assert bool(codes) is found
