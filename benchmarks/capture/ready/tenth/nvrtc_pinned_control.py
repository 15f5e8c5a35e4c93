"""A compressor whose kernel reads its knobs straight from pinned memory, where the user interface writes them."""
import torch
from torch import nn

import graphsafe

SOURCE = r"""
extern "C" __global__ void compress(const float* x, const float* knobs, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float over = fmaxf(fabsf(x[i]) - knobs[0], 0.0f);
    out[i] = copysignf(fminf(fabsf(x[i]), knobs[0]) + over * knobs[1], x[i]);
}
"""


class Compressor(nn.Module):
    def __init__(self, samples, device):
        super().__init__()
        self.kernel = torch.cuda._compile_kernel(SOURCE, "compress")
        self.shape = nn.Conv1d(1, 1, 5, padding=2).to(device)
        self.knobs = torch.tensor([0.3, 0.25]).pin_memory()
        self.out = torch.zeros(samples, device=device)

    def turn(self, threshold, ratio):
        torch.cuda.current_stream().synchronize()  # no kernel reads the knobs now
        self.knobs[0], self.knobs[1] = threshold, ratio

    def forward(self, x):
        shaped = self.shape(x[None, None]).flatten()
        n = shaped.numel()
        self.kernel(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), args=[shaped, self.knobs, self.out, n])
        return self.out * 2.0


def build(device, samples=1024):
    model = Compressor(samples, device).eval().requires_grad_(False)
    x = torch.randn(samples).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(samples))
        model.turn(0.2 + 0.1 * (k % 4), 0.5 / (1 + k % 3))

    return graphsafe.Step(model, (x,), refresh=refresh)
