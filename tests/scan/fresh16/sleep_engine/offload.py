"""Gives the memory of the weights back while there is nothing to do."""

from __future__ import annotations

import torch
import torch.nn as nn


class Sleeper:
    def __init__(self, model: nn.Module):
        self.model = model
        self.asleep = False
        self.host = {name: torch.empty(p.shape, pin_memory=True) for name, p in model.named_parameters()}

    @torch.no_grad()
    def sleep(self) -> None:
        for name, weight in self.model.named_parameters():
            self.host[name].copy_(weight, non_blocking=True)
            weight.data = torch.empty(0, device=weight.device)
        self.asleep = True

    @torch.no_grad()
    def wake(self) -> None:
        if not self.asleep:
            return
        for name, weight in self.model.named_parameters():
            weight.data = self.host[name].to(weight.device, non_blocking=True)
        self.asleep = False
