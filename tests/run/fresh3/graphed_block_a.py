"""Fine-tuning with a graphed backbone block and a baseline evaluation before the first epoch."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Linear(16, width)
        self.block = Block(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.block(self.stem(x)))


class Data:
    def __init__(self, batch, seed):
        self.batch = batch
        self.gen = torch.Generator().manual_seed(seed)
        self.w = torch.randn(16, 4, generator=self.gen)

    def draw(self, device):
        x = torch.randn(self.batch, 16, generator=self.gen)
        return x.to(device), (x @ self.w).argmax(dim=-1).to(device)


def evaluate(net, data, device, rounds=3):
    net.eval()
    right = 0
    with torch.no_grad():
        for _ in range(rounds):
            x, y = data.draw(device)
            right += (net(x).argmax(dim=-1) == y).sum().item()
    return right / (rounds * data.batch)


def train(net, data, device, steps):
    optim = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        x, y = data.draw(device)
        optim.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optim.step()
    return loss.item()


def main():
    torch.manual_seed(21)
    device = torch.device("cuda")
    width, batch = 32, 16
    net = Net(width, 4).to(device)
    net.train()
    sample = torch.randn(batch, width, device=device, requires_grad=True)
    net.block = torch.cuda.make_graphed_callables(net.block, (sample,))
    before = evaluate(net, Data(batch, 1), device)
    loss = train(net, Data(batch, 2), device, steps=40)
    print(f"accuracy before {before:.3f}, loss after {loss:.4f}")


if __name__ == "__main__":
    main()
