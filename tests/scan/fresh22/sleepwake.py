import torch
from torch import nn


class Engine:
    def __init__(self, device):
        self.device = device
        self.net = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 20)).to(device)
        self.scale = torch.ones(20, device=device)
        self.buf = torch.zeros(4, 20, device=device)
        self.backup = {}
        self.fold()
        self.capture()

    @torch.no_grad()
    def fold(self):
        self.folded = self.net[0].weight * self.scale

    def _fwd(self):
        h = torch.relu(self.buf @ self.folded.t() + self.net[0].bias)
        return self.net[2](h)

    @torch.no_grad()
    def capture(self):
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            self._fwd()
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self._fwd()

    @torch.no_grad()
    def reload(self, state):
        self.net.load_state_dict(state)

    def sleep(self):
        for name, p in self.net.named_parameters():
            self.backup[name] = p.data.cpu()
            p.data = torch.empty(0, device=self.device)

    def wake(self):
        for name, p in self.net.named_parameters():
            p.data = self.backup.pop(name).to(self.device)

    def infer(self, x):
        self.buf.copy_(x)
        self.graph.replay()
        torch.cuda.synchronize()
        return self.out.clone()


def main(device="cuda"):
    torch.manual_seed(6)
    engine = Engine(device)
    for day in range(3):
        for _ in range(4):
            engine.infer(torch.randn(4, 20, device=device))
        new = {k: torch.randn_like(v) * 0.1 for k, v in engine.net.state_dict().items()}
        engine.reload(new)
        for _ in range(4):
            engine.infer(torch.randn(4, 20, device=device))
    engine.sleep()
    engine.wake()
    for _ in range(4):
        y = engine.infer(torch.randn(4, 20, device=device))
    print(y.sum().item())


if __name__ == "__main__":
    main()
