"""Streaming sessions; each takes a slot with recurrent state and a captured step."""
import random

import torch
from torch import nn

device = torch.device("cuda")
WIDTH = 64


class Slot:
    """State, static input and graph of one running session."""

    def __init__(self, cell):
        self.cell = cell
        self.chunk = torch.zeros(8, WIDTH, device=device)
        self.state = torch.zeros(8, WIDTH, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.advance()
            self.advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.energy = self.advance()
        self.steps = 0

    def advance(self):
        self.state.copy_(self.cell(self.chunk, self.state))
        return self.state.square().mean()

    def reset(self):
        self.state.zero_()
        self.steps = 0


class Sessions:
    def __init__(self, cell):
        self.cell = cell
        self.free = []
        self.closed = []
        self.running = {}
        self.made = 0

    def open(self, name):
        if self.free:
            slot = self.free.pop()
        else:
            slot = Slot(self.cell)
            self.made += 1
        slot.reset()
        self.running[name] = slot

    def feed(self, name, chunk):
        slot = self.running[name]
        slot.chunk.copy_(chunk)
        slot.graph.replay()
        slot.steps += 1
        return slot.energy.item()

    def close(self, name):
        slot = self.running.pop(name)
        self.closed.append(slot.steps)
        self.free.append(slot)


def main():
    torch.manual_seed(0)
    rng = random.Random(5)
    cell = nn.GRUCell(WIDTH, WIDTH).to(device).requires_grad_(False)
    sessions = Sessions(cell)
    energy, alive, number = 0.0, [], 0
    while number < 20 or alive:
        while number < 20 and len(alive) < 3:
            name = f"session-{number}"
            sessions.open(name)
            alive.append([name, rng.randint(2, 5)])
            number += 1
        for entry in list(alive):
            energy += sessions.feed(entry[0], torch.randn(8, WIDTH))
            entry[1] -= 1
            if entry[1] == 0:
                sessions.close(entry[0])
                alive.remove(entry)
    print("energy", round(energy, 4), "slots made", sessions.made)


if __name__ == "__main__":
    main()
