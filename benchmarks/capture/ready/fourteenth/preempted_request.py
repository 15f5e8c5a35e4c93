"""Under memory pressure a request is preempted: its cache goes to the host and comes back, into new memory."""
import torch

import graphsafe


class Request:
    def __init__(self, number, device):
        self.number = number
        self.cache = torch.zeros(6, 16, device=device)
        self.kept = None

    def swap_out(self):
        self.kept, self.cache = self.cache.to("cpu", copy=True), None

    def swap_in(self, device):
        self.cache, self.kept = self.kept.to(device, copy=True), None


class Engine:
    def __init__(self, device):
        self.device = device
        self.running = [Request(i, device) for i in range(3)]
        self.project = torch.randn(16, 16, device=device) / 4

    def manage(self, k):
        """A long prompt elsewhere needs room once; the youngest request makes way and is brought back at once."""
        if k == 118:
            victim = self.running[-1]
            victim.swap_out()
            room = torch.full((6, 16), 3.0, device=self.device)
            victim.swap_in(self.device)
            del room
        if k % 20 == 19:  # the request in this row has ended, another one takes its memory over
            self.running[k // 20 % 3].cache.zero_()

    def step(self, tokens):
        answers = []
        for row, request in zip(tokens, self.running):
            request.cache.copy_(torch.cat([request.cache[1:] * 0.95, row[None] @ self.project]))
            answers.append((request.cache * torch.linspace(0, 1, 6, device=row.device)[:, None]).sum(0))
        return torch.stack(answers)


def build(device):
    engine = Engine(device)

    def refresh(args, kwargs, k):
        engine.manage(k)
        args[0].copy_(torch.randn(3, 16))

    return graphsafe.Step(engine.step, (torch.randn(3, 16, device=device),), refresh=refresh)
