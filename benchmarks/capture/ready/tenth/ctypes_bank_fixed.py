"""Two banks of expert weights; the router copies the active one to a fixed place, from where the step takes it by the runtime's own copy."""
import ctypes

import torch
from torch import nn

import graphsafe

DEVICE_TO_DEVICE = 3


class Runtime:
    """The few calls of libcudart that are needed, of the library that is already loaded."""

    def __init__(self):
        torch.cuda.init()
        with open("/proc/self/maps") as maps:
            path = next(line[line.index("/") :].strip() for line in maps if "libcudart" in line)
        self.library = ctypes.CDLL(path)
        self.library.cudaMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]

    def copy(self, target, source):
        stream = torch.cuda.current_stream().cuda_stream
        size = target.numel() * target.element_size()
        status = self.library.cudaMemcpyAsync(target.data_ptr(), source.data_ptr(), size, DEVICE_TO_DEVICE, stream)
        if status:
            raise RuntimeError(f"cudaMemcpyAsync: {status}")


class BankedExpert(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.runtime = Runtime()
        self.banks = [torch.randn(width, width).to(device) / width ** 0.5 for _ in range(2)]
        self.chosen = self.banks[0].clone()
        self.weight = torch.zeros(width, width, device=device)
        self.norm = nn.LayerNorm(width).to(device)

    def forward(self, x):
        self.runtime.copy(self.weight, self.chosen)
        return self.norm(x) @ self.weight


def build(device, batch=4, width=32):
    model = BankedExpert(width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 15 == 14:
            model.chosen.copy_(model.banks[k // 15 % 2])  # the router has moved on

    return graphsafe.Step(model, (x,), refresh=refresh)
