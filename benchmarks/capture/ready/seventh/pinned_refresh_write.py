"""The scheduler writes sampling parameters into pinned memory through numpy; the step copies them to the device."""
import torch
from torch import nn

import graphsafe


class Sampler(nn.Module):
    def __init__(self, device, dim=16, vocab=40):
        super().__init__()
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("params", torch.ones(4))
        self.host = torch.ones(4, pin_memory=torch.cuda.is_available())
        self.host_np = self.host.numpy()
        self.generated = 0

    def schedule(self):
        self.generated += 1
        self.host_np[0] = 1.0 + 0.01 * self.generated

    def forward(self, hidden):
        self.params.copy_(self.host, non_blocking=True)
        return self.head(hidden) / self.params[0]


def build(device):
    torch.manual_seed(20)
    sampler = Sampler(device).to(device).eval().requires_grad_(False)
    hidden = torch.randn(3, 16, device=device)

    def refresh(args, kwargs, k):
        torch.cuda.synchronize()  # the last step has read the pinned memory
        args[0].copy_(torch.randn(3, 16))
        sampler.schedule()

    return graphsafe.Step(sampler, (hidden,), refresh=refresh)
