"""Self-supervised training on two views per sample, encoder graphed for training.

The encoder goes through torch.cuda.make_graphed_callables; projector, loss and
optimizer stay eager.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")
BATCH, DIM, FEAT, STEPS = 16, 24, 32, 25


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 64), nn.GELU(), nn.Linear(64, FEAT))

    def forward(self, x):
        return self.net(x)


class Augment:
    """Two noisy, rescaled views of each sample."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def view(self, x):
        noise = torch.randn(x.shape, generator=self.gen) * 0.3
        scale = 0.7 + 0.6 * torch.rand(x.shape[0], 1, generator=self.gen)
        return (x * scale + noise).to(device)


def spread(z):
    return F.relu(1.0 - z.std(dim=0)).mean()


def objective(z1, z2):
    return F.mse_loss(z1, z2) + spread(z1) + spread(z2)


def load(steps, seed):
    gen = torch.Generator().manual_seed(seed)
    augment = Augment(seed + 1)
    for _ in range(steps):
        x = torch.randn(BATCH, DIM, generator=gen)
        yield augment.view(x), augment.view(x)


def plain_encode(encoder):
    def encode(v1, v2):
        return encoder(v1), encoder(v2)

    return encode


def graphed_encode(encoder):
    sample = torch.zeros(BATCH, DIM, device=device)
    fast = torch.cuda.make_graphed_callables(encoder, (sample,))

    def encode(v1, v2):
        z1 = fast(v1)
        z2 = fast(v2)
        return z1, z2

    return encode


def train(make_encode):
    torch.manual_seed(21)
    encoder = Encoder().to(device)
    projector = nn.Linear(FEAT, FEAT).to(device)
    params = list(encoder.parameters()) + list(projector.parameters())
    opt = torch.optim.SGD(params, lr=0.1)
    encode = make_encode(encoder)
    losses = []
    for v1, v2 in load(STEPS, seed=22):
        opt.zero_grad(set_to_none=True)
        z1, z2 = encode(v1, v2)
        loss = objective(projector(z1), projector(z2))
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


def main():
    want = train(plain_encode)
    got = train(graphed_encode)
    gap = float((got - want).abs().nan_to_num(1e9).max())
    print("RESULT", [round(float(v), 4) for v in got[-3:]])
    print("CHECK ok" if gap < 1e-3 else f"CHECK wrong: losses differ by {gap:.4g}")


if __name__ == "__main__":
    main()
