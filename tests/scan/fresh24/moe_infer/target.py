import torch

from .model import MoeConfig, MoeStack


def build(device, tokens=16):
    torch.manual_seed(1)
    cfg = MoeConfig()
    stack = MoeStack(cfg, device)
    hidden = torch.randn(tokens, cfg.dim, device=device)
    return stack.step, (hidden,)
