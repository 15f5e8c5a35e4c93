import torch


class DDIMSchedule:
    """Holds the noise schedule and where we are in it."""

    def __init__(self, steps, device, beta_start=1e-4, beta_end=0.02):
        betas = torch.linspace(beta_start, beta_end, 1000, device=device)
        cumulative = torch.cumprod(1.0 - betas, dim=0)
        stride = 1000 // steps
        self.steps = steps
        self.alphas = cumulative[::stride].flip(0).contiguous()
        self.index = 0

    def reset(self):
        self.index = 0

    def advance(self):
        self.index += 1

    def current(self):
        here = self.alphas[self.index]
        nxt = self.alphas[min(self.index + 1, self.steps - 1)]
        return here, nxt
