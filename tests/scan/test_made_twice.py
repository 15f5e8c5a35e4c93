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


BACKEND = """\
    class Meta:
        def __init__(self):
            self.pages = self.spans = self.part = None

    class Part:
        def __init__(self, spans):
            self.spans = spans

    class Backend(nn.Module):
        def __init__(self, limit, device):
            super().__init__()
            self.device = device
            self.pages = torch.zeros(limit, 64, dtype=torch.int32, device=device)
            self.metas = {{}}
            self.fixed = {{"columns": torch.arange(64, device=device)}}

        def prepare_capture(self, size: int, lengths: torch.Tensor):
            meta = Meta()
            meta.pages = self.pages[:size]
            meta.spans = torch.cumsum(lengths, 0)
            self.divide(meta)
            self.metas[size] = meta
            self.meta = meta

        def prepare_replay(self, size: int, rows: torch.Tensor, lengths: torch.Tensor):
            meta = None
            meta = self.metas[size]
            {stepped}
            self.meta = meta

        def divide(self, meta):
            part = Part(torch.arange(8, device=self.device))
            {divided}

        def forward(self, x):
            return torch.ops.kernels.attend(x, self.meta.pages, self.meta.spans, getattr(self.meta, "part", None))
    """


def _kept(scan: Scan, stepped: str, divided: str = "pass") -> list[str]:
    found = scan(BACKEND.format(stepped=stepped, divided=divided))
    return [line for code, line in found if code == "GS707"]


@pytest.mark.parametrize(
    "stepped",
    [
        "meta.pages = self.pages[rows]",
        "meta.pages = self.pages[:, self.fixed['columns']]",
        "meta.spans = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0))",
    ],
)
def test_a_new_tensor_in_an_object_that_the_capture_keeps(scan: Scan, stepped: str) -> None:
    assert _kept(scan, stepped) == [stepped]


def test_a_method_that_puts_a_new_tensor_into_the_kept_object(scan: Scan) -> None:
    assert _kept(scan, "self.divide(meta)", "meta.part = part") == ["self.divide(meta)"]


@pytest.mark.parametrize(
    "stepped",
    [
        pytest.param("meta.pages.copy_(self.pages[rows])", id="filled in place"),
        pytest.param("meta.pages = self.pages[:size]", id="a view of the buffer"),
        pytest.param("meta.widest = torch.cumsum(lengths, 0)", id="no code of the graph reads the field"),
        pytest.param("meta.spans = torch.cumsum(lengths.cpu(), 0)", id="on the host"),
        pytest.param("meta = Meta(); meta.spans = torch.cumsum(lengths, 0)", id="another object"),
        pytest.param("self.divide(meta)", id="a method that changes nothing"),
    ],
)
def test_a_kept_object_that_stays_the_same(scan: Scan, stepped: str) -> None:
    assert _kept(scan, stepped) == []
