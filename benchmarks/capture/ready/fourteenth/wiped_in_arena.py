"""Tenants' tables live in an arena; an evicted one is wiped, ours is written back to its place before it is needed."""
import torch

import graphsafe


class Arena:
    def __init__(self, device, room):
        self.memory = torch.zeros(room, 20, 8, device=device)
        self.place, self.order = {}, []

    def load(self, tenant):
        if tenant in self.place:
            return self.place[tenant]
        if len(self.order) == len(self.memory):
            gone = self.order.pop(0)
            at = self.place.pop(gone)
            self.memory[at].zero_()
        else:
            at = len(self.order)
        g = torch.Generator().manual_seed(tenant)
        self.memory[at].copy_(torch.randn(20, 8, generator=g))
        self.place[tenant] = at
        self.order.append(tenant)
        return at


class Server:
    def __init__(self, device):
        self.arena = Arena(device, room=3)
        self.current = torch.zeros(1, dtype=torch.long, device=device)
        self.arena.load(0)

    def schedule(self, k):
        self.current.fill_(self.arena.load(k // 11 % 5))

    def step(self, ids):
        table = self.arena.memory.index_select(0, self.current)[0]
        return torch.tanh(table[ids]).sum(1)


def build(device):
    server = Server(device)

    def refresh(args, kwargs, k):
        server.schedule(k)
        args[0].copy_(torch.randint(20, (4, 6)))

    return graphsafe.Step(server.step, (torch.randint(20, (4, 6), device=device),), refresh=refresh)
