import torch


class Worker:
    def __init__(self, block, tokens, device):
        self.block = block
        self.bias = torch.zeros(4, device=device)
        self.x = torch.zeros(tokens, 16, device=device)
        self.calls = 0
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s), torch.no_grad():
            block(self.x, self.bias)
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y, self.load = block(self.x, self.bias)

    def rebalance(self):
        self.bias = self.bias - 0.01 * (self.load - self.load.mean())

    def run(self, x):
        self.x[: x.shape[0]].copy_(x)
        self.graph.replay()
        self.calls += 1
        return self.y[: x.shape[0]].clone()

    def degrade(self, k):
        self.block.top_k = k
