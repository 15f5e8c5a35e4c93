"""Contrastive training of two towers; each tower is a graphed callable, the loss and the optimizer stay eager."""
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, d_in, d_out=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, 32), nn.GELU(), nn.Linear(32, d_out))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


class AverageMeter:
    def __init__(self, device):
        self.total = torch.zeros((), device=device)
        self.n = 0

    def add(self, value):
        self.total.add_(value.detach())
        self.n += 1

    def mean(self):
        return (self.total / max(self.n, 1)).item()


def main(device="cuda", steps=10, batch=8):
    torch.manual_seed(0)
    image, text = Tower(20).to(device), Tower(14).to(device)
    temperature = nn.Parameter(torch.tensor(0.0, device=device))
    params = [*image.parameters(), *text.parameters(), temperature]
    opt = torch.optim.AdamW(params, lr=1e-3)
    sample = (torch.randn(batch, 20, device=device),), (torch.randn(batch, 14, device=device),)
    g_image, g_text = torch.cuda.make_graphed_callables((image, text), sample)
    labels = torch.arange(batch, device=device)
    a_all = torch.randn(steps, batch, 20, device=device)
    b_all = torch.randn(steps, batch, 14, device=device)
    meter = AverageMeter(device)
    for k in range(steps):
        opt.zero_grad(set_to_none=True)
        a, b = g_image(a_all[k]), g_text(b_all[k])
        logits = a @ b.t() * temperature.exp()
        loss = nn.functional.cross_entropy(logits, labels) + nn.functional.cross_entropy(logits.t(), labels)
        loss.backward()
        opt.step()
        meter.add(loss)
    print(f"mean loss {meter.mean():.4f}")


if __name__ == "__main__":
    main()
