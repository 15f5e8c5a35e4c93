import torch


class Bodies:
    """Positions, velocities and masses; everything is written in place."""

    def __init__(self, count, device, seed=0):
        gen = torch.Generator().manual_seed(seed)
        self.pos = torch.randn(count, 3, generator=gen).to(device)
        self.vel = (torch.randn(count, 3, generator=gen) * 0.1).to(device)
        self.mass = torch.rand(count, generator=gen).add_(0.1).to(device)
        self.time = torch.zeros((), dtype=torch.float64, device=device)
        self.history = torch.zeros(64, 4, device=device)
        self.row = torch.zeros(1, dtype=torch.long, device=device)

    def log(self, values):
        slot = self.row.remainder(self.history.shape[0])
        self.history.index_copy_(0, slot, torch.stack(values).unsqueeze(0))
        self.row.add_(1)

    def swap_frame(self, origin, drift):
        self.pos.sub_(origin)
        self.vel.sub_(drift)
