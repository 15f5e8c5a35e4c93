"""A policy server that sleeps while the trainer owns the card."""
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, width=24, acts=5):
        super().__init__()
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, acts)
        self.register_buffer("carry", torch.zeros(4, width))
        self.fused = None

    def prepare(self):
        with torch.no_grad():
            self.fused = torch.cat([self.q.weight, self.k.weight], dim=0).contiguous()

    def forward(self, obs):
        q, k = torch.nn.functional.linear(obs, self.fused).chunk(2, dim=-1)
        gate = torch.sigmoid((q * k).sum(-1, keepdim=True))
        self.carry.mul_(0.9).add_(gate * obs)
        return self.out(self.carry)


class Server:
    def __init__(self, policy, device):
        self.policy, self.device = policy, device
        self.obs = torch.zeros(4, 24, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = None

    @torch.no_grad()
    def boot(self):
        self.policy.prepare()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.policy(self.obs)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.scores = self.policy(self.obs)

    def sleep(self):
        self.policy.carry = torch.empty(0)

    def wake(self):
        self.policy.carry = torch.zeros(4, 24, device=self.device)

    @torch.no_grad()
    def receive(self, weights):
        for name, p in self.policy.named_parameters():
            new = weights[name]
            if name.startswith("out"):
                p.data = new.to(p.device, p.dtype)
            else:
                p.copy_(new)

    def act(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.scores.clone()


def main(device="cuda"):
    torch.manual_seed(1)
    policy = Policy().to(device)
    server = Server(policy, torch.device(device))
    server.boot()
    trace = []
    for phase in range(3):
        for _ in range(4):
            trace.append(server.act(torch.randn(4, 24, device=device)))
        server.sleep()
        update = {n: p.detach() + 0.1 * torch.randn_like(p) for n, p in policy.named_parameters()}
        server.wake()
        server.receive(update)
    print(torch.stack(trace).mean(dim=(1, 2)))


if __name__ == "__main__":
    main()
