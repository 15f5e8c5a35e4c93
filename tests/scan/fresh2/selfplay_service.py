"""Self-play for connect-four: a tree search on the host, a captured network on the device."""
import math
import random

import numpy as np
import torch
from torch import nn


class Board:
    rows, cols = 6, 7

    def __init__(self, cells=None, player=1):
        self.cells = np.zeros((self.rows, self.cols), dtype=np.int8) if cells is None else cells
        self.player = player

    def legal(self):
        return [c for c in range(self.cols) if self.cells[0, c] == 0]

    def play(self, col):
        cells = self.cells.copy()
        row = np.flatnonzero(cells[:, col] == 0)[-1]
        cells[row, col] = self.player
        return Board(cells, -self.player)

    def planes(self):
        mine = (self.cells == self.player).astype(np.float32)
        theirs = (self.cells == -self.player).astype(np.float32)
        return [mine.tolist(), theirs.tolist()]


class PolicyValue(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, width, 3, padding=1), nn.ReLU(), nn.Flatten())
        self.policy = nn.Linear(width * 42, 7)
        self.value = nn.Linear(width * 42, 1)

    def forward(self, x):
        h = self.body(x)
        return self.policy(h).softmax(-1), self.value(h).tanh()


class Evaluator:
    def __init__(self, net, batch, device):
        self.batch = batch
        self.net = net
        self.device = device
        self.x = torch.zeros(batch, 2, 6, 7, device=device)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad():
            with torch.cuda.stream(stream):
                for _ in range(3):
                    net(self.x)
            torch.cuda.current_stream(device).wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.prior, self.value = net(self.x)

    def evaluate(self, boards):
        planes = [b.planes() for b in boards]
        self.x[: len(planes)].copy_(torch.tensor(planes, device=self.device))
        self.graph.replay()
        return self.prior[: len(boards)], self.value[: len(boards)]


class Game:
    def __init__(self):
        self.board = Board()
        self.record = []


def selfplay(evaluator, games, plies, temperature=1.0):
    for _ in range(plies):
        active = [g for g in games if g.board.legal()]
        if not active:
            break
        prior, value = evaluator.evaluate([g.board for g in active])
        host = prior.cpu().numpy()
        for i, game in enumerate(active):
            moves = game.board.legal()
            p = np.asarray([math.pow(float(host[i, m]) + 1e-8, 1 / temperature) for m in moves])
            game.record.append((game.board.planes(), value[i]))
            game.board = game.board.play(random.choices(moves, p / p.sum())[0])
    return [g.record for g in games]
