"""Adapters of many tenants: one kernel gathers rows through a table of addresses, which the loader rewrites when an adapter moves."""
import torch
from torch import nn

import graphsafe

SOURCE = r"""
extern "C" __global__ void gather_bias(const long long* table, const long long* tenant, float* out, int width, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width * rows) return;
    const float* bias = (const float*) table[tenant[i / width]];
    out[i] = bias[i % width];
}
"""


class Adapters:
    def __init__(self, count, width, device):
        self.device = device
        self.biases = [torch.randn(width).to(device) for _ in range(count)]
        self.table = torch.tensor([b.data_ptr() for b in self.biases], device=device)

    def load(self, i, values):
        self.biases[i] = values.to(self.device)  # new memory
        self.table[i : i + 1].copy_(torch.tensor([self.biases[i].data_ptr()]))


class TenantLayer(nn.Module):
    def __init__(self, adapters, width, batch, device):
        super().__init__()
        self.kernel = torch.cuda._compile_kernel(SOURCE, "gather_bias")
        self.adapters = adapters
        self.linear = nn.Linear(width, width).to(device)
        self.bias = torch.zeros(batch, width, device=device)

    def forward(self, x, tenant):
        rows, width = self.bias.shape
        args = [self.adapters.table, tenant, self.bias, width, rows]
        self.kernel(grid=((rows * width + 127) // 128, 1, 1), block=(128, 1, 1), args=args)
        return torch.relu(self.linear(x) + self.bias)


def build(device, batch=6, width=16, count=4):
    adapters = Adapters(count, width, device)
    model = TenantLayer(adapters, width, batch, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)
    tenant = torch.randint(0, count, (batch,)).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        args[1].copy_(torch.randint(0, count, (batch,)))
        if k % 8 == 7:
            adapters.load(k // 8 % count, torch.randn(width))

    return graphsafe.Step(model, (x, tenant), refresh=refresh)
