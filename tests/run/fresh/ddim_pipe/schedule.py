import torch


class DDIMSchedule:
    """Tables are made once on the host; a device counter walks through them."""

    def __init__(self, train_steps, steps, device, eta=0.0):
        betas = torch.linspace(1e-4, 0.02, train_steps)
        acp = (1 - betas).cumprod(0)
        ts = torch.linspace(train_steps - 1, 0, steps).round().long()
        prev = torch.cat([acp[ts[1:]], torch.ones(1)])
        assert bool((prev >= acp[ts]).all()), "schedule must be decreasing"
        self.timesteps_host = ts.tolist()
        self.timesteps = ts.to(device)
        self.alpha = acp[ts].to(device)
        self.alpha_prev = prev.to(device)
        self.sigma = eta * ((1 - prev) / (1 - acp[ts])).clamp_min(0).sqrt().to(device)
        self.counter = torch.zeros(1, dtype=torch.long, device=device)
        self.first_noise = float((1 / acp[ts[0]] - 1).sqrt())

    def restart(self):
        self.counter.zero_()

    def at(self, table):
        return table.index_select(0, self.counter)

    def advance(self):
        self.counter.add_(1).remainder_(len(self.timesteps_host))

    def step(self, eps, x):
        a, b, s = self.at(self.alpha), self.at(self.alpha_prev), self.at(self.sigma)
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-4, 4)
        direction = (1 - b - s * s).clamp_min(0).sqrt() * eps
        return b.sqrt() * x0 + direction + s * torch.randn_like(x)
