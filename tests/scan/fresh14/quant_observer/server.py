"""Serves the quantised net through a graph with a fixed correction of the classes."""

import torch


class Server:
    def __init__(self, net, batch, width, priors):
        self.net = net
        self.priors = priors
        self.x = torch.zeros(batch, width, device="cuda")
        self.capture()

    def capture(self):
        correction = (self.priors / self.priors.sum()).log().neg()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.net(self.x) + correction
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = (self.net(self.x) + correction).softmax(-1)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.scores.clone()
