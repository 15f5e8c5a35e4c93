import copy

import torch
import torch.nn.functional as F
from torch import nn


class Trunk(nn.Module):
    def __init__(self, dim=12, out=8):
        super().__init__()
        self.a = nn.Linear(dim, 24)
        self.b = nn.Linear(24, out)

    def forward(self, x):
        return F.normalize(self.b(F.gelu(self.a(x))), dim=-1)


class Pairs:
    def __init__(self, people, dim, seed):
        gen = torch.Generator().manual_seed(seed)
        self.faces = torch.randn(people, dim, generator=gen)
        self.gen = gen

    def draw(self, n):
        who = torch.randint(0, len(self.faces), (n,), generator=self.gen)
        noise = 0.3 * torch.randn(2, n, self.faces.shape[1], generator=self.gen)
        return self.faces[who] + noise[0], self.faces[who] + noise[1]


class Siamese:
    def __init__(self, trunk, batch, dim, device):
        self.trunk, self.device = trunk, device
        self.teacher = copy.deepcopy(trunk)
        sample = torch.randn(batch, dim, device=device)
        self.encode = torch.cuda.make_graphed_callables(trunk, (sample,))
        self.optimizer = torch.optim.SGD(trunk.parameters(), lr=0.1)

    def loss(self, left, right):
        u = self.encode(left)
        v = self.encode(right)
        sim = u @ v.T / 0.1
        target = torch.arange(sim.shape[0], device=sim.device)
        return F.cross_entropy(sim, target)

    def step(self, left, right):
        left, right = torch.stack([left, right]).to(self.device)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(left, right)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def rollback(self):
        self.trunk.load_state_dict(self.teacher.state_dict(), assign=True)


def main():
    device = torch.device("cuda")
    torch.manual_seed(14)
    model = Siamese(Trunk().to(device), 8, 12, device)
    pairs = Pairs(30, 12, seed=3)
    losses = []
    for it in range(16):
        losses.append(model.step(*pairs.draw(8)))
        if it == 8:
            model.rollback()
    print(torch.stack(losses).tolist())


if __name__ == "__main__":
    main()
