"""Continuous batching over a Worker."""
from __future__ import annotations

import torch

from .requests import Lobby, Request, Roster
from .worker import LADDER, Decoder, Worker


class Server:
    def __init__(self, vocab: int = 512, width: int = 64, slots: int = 32, limit: int = 256):
        self.device = torch.device("cuda", 0)
        self.worker = Worker(Decoder(vocab, width), slots, limit, self.device)
        self.worker.prepare()
        self.lobby = Lobby(slots)
        self.active: list[Request] = []
        self.newest = torch.zeros(slots, dtype=torch.int64, device=self.device)
        self.written = torch.zeros(slots, limit, dtype=torch.int64, device=self.device)

    def submit(self, prompt: list[int], budget: int) -> int:
        request = Request(prompt, budget)
        self.lobby.put(request)
        return request.rid

    def _join(self) -> None:
        for request in self.lobby.admit(LADDER[-1] - len(self.active)):
            request.length = 0
            self.newest[request.slot : request.slot + 1].fill_(request.prompt[-1])
            self.active.append(request)

    def turn(self) -> int:
        self._join()
        if not self.active:
            return 0
        roster = Roster.of(self.active, self.device)
        picked = self.worker.tick(self.newest[roster.slots], roster)
        self.newest.index_copy_(0, roster.slots, picked)
        self.written[roster.slots, roster.positions] = picked
        staying = []
        for request in self.active:
            request.length += 1
            request.produced += 1
            if request.finished:
                self.lobby.leave(request)
            else:
                staying.append(request)
        done = len(self.active) - len(staying)
        self.active = staying
        return done

    def drain(self) -> None:
        while self.active or self.lobby.waiting:
            self.turn()


if __name__ == "__main__":
    server = Server()
    for i in range(40):
        server.submit([i + 1], budget=8 + i % 5)
    server.drain()
    print(server.written[:, :8].cpu())
