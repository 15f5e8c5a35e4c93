"""A policy server whose weights are refreshed by a trainer between rollouts."""
import torch
from torch import nn

WIDTH, BATCH, ROUNDS, STEPS = 48, 6, 4, 20


class Heads(nn.Module):
    """Three projections, read by inference as one packed matrix."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v = nn.Linear(WIDTH, WIDTH, bias=False)
        self.packed = None

    def pack(self):
        if self.packed is None:
            self.packed = self.q.weight.new_zeros(3 * WIDTH, WIDTH)
        torch.cat([self.q.weight, self.k.weight, self.v.weight], out=self.packed)

    def forward(self, x):
        q, k, v = nn.functional.linear(x, self.packed).chunk(3, -1)
        return torch.softmax(q * k, -1) * v


class Rollout:
    def __init__(self, model, device):
        self.model = model
        self.obs = torch.zeros(BATCH, WIDTH, device=device)
        self.act = torch.zeros(BATCH, WIDTH, device=device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.act.copy_(model(self.obs))
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.act.copy_(model(self.obs))
        self.holds = (self.obs, self.act, model.packed)

    def step(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.act


def refresh(model, state):
    own = dict(model.named_parameters())
    for name, tensor in state.items():
        own[name].copy_(tensor)
    model.pack()


@torch.no_grad()
def main():
    torch.manual_seed(4)
    device = torch.device("cuda")
    model = Heads().to(device).eval()
    model.pack()
    rollout = Rollout(model, device)
    names = [n for n, _ in model.named_parameters()]
    updates = {n: (torch.randn(ROUNDS, WIDTH, WIDTH) / WIDTH ** 0.5).to(device) for n in names}
    observations = torch.randn(STEPS, BATCH, WIDTH).to(device)
    reward = torch.zeros(ROUNDS, device=device)
    for r in range(ROUNDS):
        for t in range(STEPS):
            reward[r].add_(rollout.step(observations[t]).sum())
        refresh(model, {n: w[r] for n, w in updates.items()})
    print("reward", " ".join(f"{v:.3f}" for v in reward.tolist()))


if __name__ == "__main__":
    main()
