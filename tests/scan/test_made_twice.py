"""Fields of metadata objects that a capture and each step make for themselves."""

from __future__ import annotations

import pytest

from .conftest import Scan

BUILDER = """\
    class Attention(nn.Module):
        def forward(self, x, meta):
            return torch.ops.kernels.attend(x, meta.table, meta.spans)

    class Meta:
        def __init__(self, table, spans=None):
            self.table, self.spans = table, spans

    class Builder:
        def __init__(self, limit, device):
            self.device = device
            self.table = torch.zeros(limit, 64, dtype=torch.int32, device=device)
            self.spans = torch.zeros(limit, dtype=torch.int32, device=device)

        def meta_for_capture(self, size):
            meta = Meta(self.table[:size])
            {captured}
            return meta

        def meta_for_decode(self, batch):
            meta = Meta(self.table[: len(batch)])
            {stepped}
            return meta
    """
ANEW = "meta.spans = torch.ones(4, dtype=torch.int32, device=self.device)"
MOVED = "meta.spans = torch.tensor([1, 2], dtype=torch.int32).to(self.device)"
VIEW = "meta.spans = self.spans[:4]"


@pytest.mark.parametrize("stepped", [ANEW, MOVED])
def test_a_field_that_both_make_anew(scan: Scan, stepped: str) -> None:
    found = scan(BUILDER.format(captured=ANEW, stepped=stepped))
    assert [one for one in found if one[0] == "GS707"] == [("GS707", ANEW), ("GS707", stepped)]


def test_a_field_that_the_constructor_is_given(scan: Scan) -> None:
    given = "meta = Meta(self.table[:4], spans=torch.arange(4, device=self.device))"
    found = scan(BUILDER.format(captured=given, stepped=given))
    assert [one for one in found if one[0] == "GS707"] == [("GS707", given), ("GS707", given)]


@pytest.mark.parametrize(
    ("captured", "stepped"),
    [
        pytest.param(VIEW, VIEW, id="one buffer for both"),
        pytest.param(ANEW, "pass", id="steps leave it alone"),
        pytest.param(f"{ANEW}\n            {VIEW}", ANEW, id="the capture has a view at last"),
        pytest.param(ANEW.replace("self.device", "'cpu'"), ANEW.replace("self.device", "'cpu'"), id="on the host"),
    ],
)
def test_fields_that_share_memory_or_stay_on_the_host(scan: Scan, captured: str, stepped: str) -> None:
    assert [one for one in scan(BUILDER.format(captured=captured, stepped=stepped)) if one[0] == "GS707"] == []


def test_what_only_a_prefill_makes_belongs_to_no_graph(scan: Scan) -> None:
    source = BUILDER.replace("meta_for_decode", "meta_for_prefill").format(captured=ANEW, stepped=ANEW)
    assert [one for one in scan(source) if one[0] == "GS707"] == []
