import torch
from torch import nn
import torch.nn.functional as F


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Mirror:
    """Acting copy of a learner; both the dynamics and the policy are in the graph."""

    def __init__(self, learner, envs, device):
        self.net = mlp(3, 16, 4).to(device)
        self.obs = torch.zeros(envs, 3, device=device)
        self.heat = torch.ones((), device=device)
        self.row = torch.zeros(1, dtype=torch.long, device=device)
        self.horizon = 8
        self.seen = torch.zeros(self.horizon, envs, 3, device=device)
        self.acts = torch.zeros(self.horizon, envs, dtype=torch.long, device=device)
        self.gains = torch.zeros(self.horizon, envs, device=device)
        self.moves = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]], device=device) * 0.1
        self.pull(learner)

    @torch.no_grad()
    def pull(self, learner):
        for mine, theirs in zip(self.net.parameters(), learner.parameters()):
            mine.copy_(theirs)

    def _tick(self):
        logits = self.net(self.obs) / self.heat
        noise = torch.empty_like(logits).exponential_()
        act = (logits.softmax(-1) / noise).argmax(-1)
        self.seen.index_copy_(0, self.row, self.obs[None])
        self.acts.index_copy_(0, self.row, act[None])
        moved = self.obs + self.moves.index_select(0, act) + 0.01 * torch.randn_like(self.obs)
        gain = -moved.square().sum(-1)
        self.gains.index_copy_(0, self.row, gain[None])
        out = (gain < -4.0)[:, None]
        self.obs.copy_(torch.where(out, torch.rand_like(moved) - 0.5, moved))
        self.row.add_(1).remainder_(self.horizon)

    @torch.no_grad()
    def capture(self, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._tick()
        torch.cuda.current_stream().wait_stream(stream)
        self.row.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._tick()

    def gather(self):
        for _ in range(self.horizon):
            self.graph.replay()
        return self.seen.clone(), self.acts.clone(), self.gains.clone()


def main():
    device = torch.device("cuda")
    torch.manual_seed(1)
    learner = mlp(3, 16, 4).to(device)
    mirror = Mirror(learner, 12, device)
    mirror.capture(torch.cuda.Stream(device))
    opt = torch.optim.SGD(learner.parameters(), lr=0.05)
    curve = []
    for it in range(8):
        seen, acts, gains = mirror.gather()
        togo = gains.flip(0).cumsum(0).flip(0)
        adv = (togo - togo.mean()) / (togo.std() + 1e-5)
        logp = F.log_softmax(learner(seen), -1).gather(-1, acts[..., None]).squeeze(-1)
        loss = -(logp * adv).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        mirror.pull(learner)
        mirror.heat.fill_(max(0.5, 1.0 - it / 10))
        curve.append(gains.mean())
    print(torch.stack(curve).tolist())


if __name__ == "__main__":
    main()
