from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .request import Request


class Sampler:
    """Runs after the replay, on the logits of the requests that are there."""

    def sample(self, logits: Tensor, requests: Sequence[Request]) -> list[int]:
        temperatures = torch.tensor([r.temperature for r in requests], device=logits.device)  # guilty: GS301 step
        if (temperatures == 0).all():  # guilty: GS102 step
            return logits.argmax(-1).tolist()  # guilty: GS101 step
        scaled = logits / temperatures.clamp(min=1e-3)[:, None]
        drawn = torch.multinomial(scaled.softmax(-1), 1).squeeze(-1)
        chosen = torch.where(temperatures == 0, logits.argmax(-1), drawn)
        return chosen.tolist()  # guilty: GS101 step
