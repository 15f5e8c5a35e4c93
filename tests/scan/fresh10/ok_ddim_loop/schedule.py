import torch


class DDIMSchedule:
    """Noise schedule; `here` and `nxt` are the levels that the step reads."""

    def __init__(self, steps, device, beta_start=1e-4, beta_end=0.02):
        betas = torch.linspace(beta_start, beta_end, 1000, device=device)
        cumulative = torch.cumprod(1.0 - betas, dim=0)
        self.steps = steps
        self.alphas = cumulative[:: 1000 // steps].flip(0).contiguous()
        self.here = self.alphas[0].clone()
        self.nxt = self.alphas[1].clone()

    def set(self, index):
        self.here.copy_(self.alphas[index])
        self.nxt.copy_(self.alphas[min(index + 1, self.steps - 1)])
