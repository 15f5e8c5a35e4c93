"""Actor process of an asynchronous learner: acts, then takes new weights."""
import threading
from queue import Queue

import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self, width=24, acts=5):
        super().__init__()
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, acts)
        self.register_buffer("carry", torch.zeros(4, width))
        self.register_buffer("fused", torch.zeros(2 * width, width), persistent=False)
        self.merge()

    @torch.no_grad()
    def merge(self):
        self.fused[: self.q.weight.shape[0]].copy_(self.q.weight)
        self.fused[self.q.weight.shape[0] :].copy_(self.k.weight)

    def forward(self, obs):
        q, k = nn.functional.linear(obs, self.fused).chunk(2, dim=-1)
        self.carry.mul_(0.9).add_(torch.sigmoid((q * k).sum(-1, keepdim=True)) * obs)
        return self.out(self.carry).softmax(-1)


class Host:
    def __init__(self, actor, device):
        self.actor = actor
        self.obs = torch.zeros(4, 24, device=device)
        self.inbox = Queue()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                actor(self.obs)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream), torch.no_grad():
            self.probs = actor(self.obs)
        actor.carry.zero_()

    @torch.no_grad()
    def absorb(self):
        while not self.inbox.empty():
            new = self.inbox.get()
            for name, p in self.actor.named_parameters():
                p.copy_(new[name], non_blocking=True)
            self.actor.merge()
            self.actor.carry.zero_()

    def act(self, obs, out):
        self.obs.copy_(obs)
        self.graph.replay()
        out.copy_(self.probs)


def publish(state, inbox):
    inbox.put({k: (v + 0.1).pin_memory() for k, v in state.items()})


def main(device="cuda", phases=3, steps=5):
    torch.manual_seed(1)
    actor = Actor().to(device)
    host = Host(actor, torch.device(device))
    trace = torch.zeros(phases, steps, 4, 5, device=device)
    state = {k: v.detach().cpu() for k, v in actor.named_parameters()}
    for phase in range(phases):
        for step in range(steps):
            host.act(torch.randn(4, 24, device=device), trace[phase, step])
        learner = threading.Thread(target=publish, args=(state, host.inbox))
        learner.start()
        learner.join()
        host.absorb()
    print(trace.mean(dim=(2, 3)))


if __name__ == "__main__":
    main()
