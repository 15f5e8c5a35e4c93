"""Contrastive training of a graphed encoder on two views of every sample."""
import torch
from torch import nn
from torch.nn import functional as F

DIM, PROJ, BATCH, STEPS = 64, 32, 24, 40


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(DIM, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU())
        self.proj = nn.Linear(128, PROJ)

    def forward(self, x):
        return self.proj(self.trunk(x))


def augment(x, strength=0.2):
    keep = (torch.rand_like(x) > 0.1).to(x.dtype)
    return (x + strength * torch.randn_like(x)) * keep


def nt_xent(z1, z2, temperature=0.2):
    z1, z2 = F.normalize(z1, dim=-1), F.normalize(z2, dim=-1)
    logits = z1 @ z2.t() / temperature
    labels = torch.arange(z1.shape[0], device=z1.device)
    return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels))


class Loop:
    def __init__(self, device):
        self.device = device
        encoder = Encoder().to(device)
        sample = torch.randn(BATCH, DIM, device=device)
        self.encoder = torch.cuda.make_graphed_callables(encoder, (sample,))
        self.opt = torch.optim.SGD(self.encoder.parameters(), lr=0.1, momentum=0.9)
        self.losses = []

    def step(self, x):
        first, second = augment(x), augment(x)
        z1 = self.encoder(first)
        z2 = self.encoder(second)
        loss = nt_xent(z1, z2)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.losses.append(loss.detach())


def main():
    device = torch.device("cuda")
    torch.manual_seed(12)
    loop = Loop(device)
    prototypes = torch.randn(200, DIM, device=device)
    for step in range(STEPS):
        rows = torch.randint(0, 200, (BATCH,), device=device)
        loop.step(prototypes[rows])
    losses = torch.stack(loop.losses).tolist()
    print(f"contrastive loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
