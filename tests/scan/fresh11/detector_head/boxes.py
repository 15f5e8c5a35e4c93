import torch


def decode(deltas: torch.Tensor, anchors: torch.Tensor, stride: int) -> torch.Tensor:
    centre = anchors + deltas[..., :2] * stride
    size = deltas[..., 2:].clamp(-4, 4).exp() * stride
    return torch.cat((centre - size / 2, centre + size / 2), dim=-1)


def clip(boxes: torch.Tensor, extent) -> torch.Tensor:
    limit = torch.tensor([extent[1], extent[0], extent[1], extent[0]], dtype=boxes.dtype, device=boxes.device)
    return torch.minimum(boxes.clamp(min=0), limit)


def confident(scores: torch.Tensor, threshold: float) -> torch.Tensor:
    return torch.nonzero(scores > threshold).squeeze(-1)
