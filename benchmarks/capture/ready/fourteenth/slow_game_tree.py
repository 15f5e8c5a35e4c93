"""A game is played on the host by a slow search, some milliseconds a move; the step evaluates the board in a net."""
import torch
from torch import nn

import graphsafe

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def winner(board):
    return next((board[a] for a, b, c in LINES if board[a] and board[a] == board[b] == board[c]), 0)


class Game:
    def __init__(self):
        self.board, self.turn, self.nodes, self.finished = [0] * 9, 1, 0, 0

    def value(self, board, turn, depth):
        self.nodes += 1
        won = winner(board)
        if won or depth == 0 or all(board):
            return won * turn, None
        best = (-2, None)
        for i in [i for i in range(9) if not board[i]]:
            board[i] = turn
            found = -self.value(board, -turn, depth - 1)[0]
            board[i] = 0
            best = max(best, (found, i), key=lambda pair: pair[0])
        return best

    def move(self, k):
        free = [i for i in range(9) if not self.board[i]]
        wanted = free[(7 * k + 3) % len(free)] if k % 3 == 0 else self.value(self.board, self.turn, 3)[1]
        self.board[wanted] = self.turn
        self.turn = -self.turn
        if winner(self.board) or all(self.board):
            self.board, self.turn = [0] * 9, 1
            self.finished += 1


def build(device):
    game = Game()
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 9)).to(device).requires_grad_(False)
    free = torch.ones(9, dtype=torch.bool, device=device)

    def step(board):
        return net(board).masked_fill(~free, -1e4).log_softmax(-1)

    def refresh(args, kwargs, k):
        game.move(k)
        args[0].copy_(torch.tensor([*game.board, game.turn], dtype=torch.float32))
        free.copy_(torch.tensor([b == 0 for b in game.board]))

    return graphsafe.Step(step, (torch.zeros(10, device=device),), refresh=refresh)
