"""Rounds that continue from the state of the round before, on a real GPU."""

from __future__ import annotations

import pytest
import torch

import graphsafe

pytestmark = [pytest.mark.gpu, pytest.mark.child]


def lookup(device: torch.device, counts: bool = False) -> graphsafe.Step:
    """A step whose output only changes after the refresh has raised an integer ten times. With `counts`, a step raises
    it instead."""
    length = torch.zeros(1, dtype=torch.long, device=device)

    def step(x: torch.Tensor) -> torch.Tensor:
        if counts:
            length.add_(1)
        return torch.where(length > 10, x, torch.zeros_like(x))

    def refresh(args: tuple[torch.Tensor], kwargs: object, k: int) -> None:
        args[0].fill_(k)
        if not counts:
            length.add_(1)

    return graphsafe.Step(step, (torch.ones(4, device=device),), refresh=refresh)


def test_state_that_the_refresh_counts_on_tests_the_replay() -> None:
    report = graphsafe.capture(lookup, device="cuda:0")
    assert report.verdict == "ready"


def test_state_that_the_step_counts_on_does_not() -> None:
    report = graphsafe.capture(lambda device: lookup(device, counts=True), device="cuda:0")
    assert report.verdict == "inconclusive"
