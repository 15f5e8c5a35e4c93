"""Training with dropout in attention; a regression hunt turns the fused backends off for some steps (as a global flag)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Attention(nn.Module):
    def __init__(self, width=128, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3 if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


def only_math(on):
    torch.backends.cuda.enable_flash_sdp(not on)
    torch.backends.cuda.enable_mem_efficient_sdp(not on)
    torch.backends.cuda.enable_cudnn_sdp(not on)


def build(device):
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    layer = Attention().to(device, dtype).train()
    only_math(False)
    x = torch.randn(2, 64, 128, device=device, dtype=dtype)

    def step(x):
        out = layer(x)
        loss = out.float().square().mean()
        gradients = torch.autograd.grad(loss, list(layer.parameters()))
        return loss.detach(), out.detach(), torch.stack([g.float().norm() for g in gradients])

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 64, 128))
        only_math(100 <= k < 104 or k >= 180)

    return graphsafe.Step(step, (x,), {}, refresh=refresh)
