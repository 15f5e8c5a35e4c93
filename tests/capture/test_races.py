"""A graph whose edges leave two nodes unordered on one piece of memory is not ready, whatever values were seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from .conftest import DEVICES, TARGETS, Prove, Report, probes_of

RACES = {"read_too_early": 28, "event_before_work": 45, "shared_scratch": 62}
"Target -> the line of the node that was captured later."
SOUND = ("joined", "columns")


@pytest.fixture(scope="module", params=DEVICES)
def reports(request: pytest.FixtureRequest, prove: Prove) -> dict[str, Report]:
    names = (*RACES, *SOUND)
    found = prove([f"{TARGETS}/lanes.py:build_{name}" for name in names], request.param)
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("name", RACES)
def test_a_missing_edge_is_not_ready_and_has_its_line(reports: dict[str, Report], name: str) -> None:
    report = reports[name]
    assert report["verdict"] == "not-ready"
    lines = {one["location"]["line"] for one in report["findings"] if one["code"] == "GS619"}
    assert RACES[name] in lines


@pytest.mark.parametrize("name", SOUND)
def test_what_the_edges_order_is_ready(reports: dict[str, Report], name: str) -> None:
    assert reports[name]["verdict"] == "ready"
    assert probes_of(reports[name])["order"]["races"] == []


def test_nodes_without_an_edge_are_no_chain() -> None:
    """An H200 showed it: two roots that race have no edge at all."""
    from graphsafe.capture.device.cuda.order import forms_chain

    assert forms_chain(1, set()) and forms_chain(3, {(0, 1), (1, 2)})
    assert not forms_chain(2, set()) and not forms_chain(3, {(0, 1), (0, 2)})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_views_overlap_only_if_they_share_an_element() -> None:
    from graphsafe.capture.device.races import Work, access_of, races_in

    matrix = torch.zeros(8, 8)

    def race(one: torch.Tensor, other: torch.Tensor) -> bool:
        work = [Work("", (), None, tuple(filter(None, [access_of(tensor, writes=True)]))) for tensor in (one, other)]
        return bool(races_in(work, lambda ones, others: None if ones == others else (0, 1)))

    assert race(matrix, matrix.t()) and race(matrix[2:4], matrix[3]) and race(matrix[:, :5], matrix[:, 4:])
    assert not race(matrix[:, :4], matrix[:, 4:]) and not race(matrix[:4], matrix[4:])
    assert access_of(torch.nested.nested_tensor([matrix, matrix[:2]]), writes=False) is None


def test_the_edges_of_a_cuda_graph_order_the_uses_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsafe.capture.device.cuda import order
    from graphsafe.capture.device.races import Access, Work

    def races(*edges: tuple[int, int]) -> list[tuple[str, str]]:
        monkeypatch.setattr(order, "graph_edges", lambda _: edges)
        touched: Any = SimpleNamespace(work=work, nodes=[range(0, 1), range(1, 3), range(3, 4), range(4, 5)])
        return [(race.other_op, race.op) for race in order.races_of(0, touched)]

    write, read = (Access(64, 4, (8,), (1,), writes) for writes in (True, False))
    work = [Work("fill", (), None, (write,)), *(Work("use", (), None, (read,)) for _ in range(3))]
    assert races((0, 1), (0, 3), (3, 4)) == [], "reads need no order, and one of an operation's nodes is enough"
    assert races((0, 1), (1, 2), (3, 4)) == [("fill", "use")]


def test_memory_freed_while_another_stream_reads_it_is_nothing_the_simulated_device_vouches_for(prove: Prove) -> None:
    """It never gives such memory away, so right replays prove nothing."""
    (report,) = prove([f"{TARGETS}/lanes.py:build_freed_early"], "sim:0")
    assert report["verdict"] == "inconclusive"
    (limit,) = [limit["what"] for limit in report["limits"] if limit["kind"] == "simulated"]
    assert "aten::sin at" in limit and "without record_stream" in limit


@pytest.mark.slow
def test_memory_that_is_freed_after_the_other_stream_has_read_it_or_not_at_all_is_ready(prove: Prove) -> None:
    names = ("freed_recorded", "freed_joined", "freed_kept")
    reports = prove([f"{TARGETS}/lanes.py:build_{name}" for name in names], "sim:0")
    assert [report["verdict"] for report in reports] == ["ready"] * 3
