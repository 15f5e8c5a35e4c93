"""Expert placement: hot experts move toward the first slots."""
import torch

from .layers import SwitchLayer, Stack


class LoadTracker:
    def __init__(self, depth: int, experts: int, decay: float = 0.9):
        self.average = torch.zeros(depth, experts)
        self.decay = decay

    def update(self, model: Stack) -> None:
        for row, layer in zip(self.average, model.layers):
            row.mul_(self.decay).add_(layer.load.cpu(), alpha=1 - self.decay)

    def skew(self) -> float:
        return float((self.average.amax(1) / self.average.mean(1).clamp_min(1e-6)).max())


@torch.no_grad()
def place(layer: SwitchLayer, ranking: torch.Tensor) -> None:
    """Put the expert ranking[i] into slot i."""
    device = layer.w_up.device
    source = layer.slot_of[ranking.to(device)]
    slot_of = torch.empty_like(layer.slot_of)
    slot_of[ranking.to(device)] = torch.arange(ranking.numel(), device=device)
    layer.w_up.copy_(layer.w_up[source])
    layer.w_down.data = layer.w_down[source].contiguous()
    layer.slot_of = slot_of


def rebalance(model: Stack, tracker: LoadTracker) -> None:
    for layer, average in zip(model.layers, tracker.average):
        place(layer, average.argsort(descending=True))
