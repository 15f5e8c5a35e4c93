"""A fleet of gliders as one batch of states; each step is a replay."""

import random

import torch

FLEET, STATE = 64, 5


class World:
    def __init__(self):
        self.state = torch.zeros(FLEET, STATE, device="cuda")
        self.control = torch.zeros(FLEET, 2, device="cuda")
        self.wind = torch.zeros(2, device="cuda")
        self.age = torch.zeros(FLEET, dtype=torch.long, device="cuda")

    def advance(self):
        x, y, heading, speed, height = self.state.unbind(-1)
        turn, pitch = self.control.tanh().unbind(-1)
        gust = random.uniform(-0.2, 0.2)
        heading = heading + 0.2 * turn
        speed = (speed + 0.1 * pitch + gust).clamp(0.1, 2.0)
        x = x + 0.1 * (speed * heading.cos() + self.wind[0])
        y = y + 0.1 * (speed * heading.sin() + self.wind[1])
        height = height - 0.02 - 0.05 * pitch.square()
        self.state.copy_(torch.stack([x, y, heading, speed, height], -1))
        self.age.add_(1)
        self.reward = speed - 0.1 * turn.square()
        self.down = (height < 0) | (self.age > 60)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.advance()
            self.advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.advance()

    def step(self, control):
        self.control.copy_(control)
        self.graph.replay()
        return self.state, self.reward, self.down

    def restart(self, rows):
        self.state[rows] = torch.rand(rows.shape[0], STATE, device="cuda")
        self.age.index_fill_(0, rows, 0)
