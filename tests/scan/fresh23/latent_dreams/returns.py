import torch


def lambda_returns(reward, value, gamma=0.97, lam=0.95):
    out = [value[-1]]
    for r, v in zip(reward.flip(0), value.flip(0)):
        out.append(r + gamma * ((1 - lam) * v + lam * out[-1]))
    return torch.stack(out[1:][::-1])


class ReturnScale:
    """Divides by the spread between the 5th and the 95th percentile of the returns."""

    def __init__(self, device):
        self.low = None
        self.high = None
        self.quantiles = torch.tensor([0.05, 0.95], device=device)

    def __call__(self, returns):
        q = torch.quantile(returns.detach().flatten(), self.quantiles)
        if self.low is None:
            self.low, self.high = q[0], q[1]
        spread = (self.high - self.low).clamp_min(1e-3)
        return (returns - self.low) / spread
