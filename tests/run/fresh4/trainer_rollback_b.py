"""Training step (forward, backward, Adam) as one graph, with rollback to the last checkpoint."""
import copy

import torch
from torch import nn
from torch.nn import functional as F

device = torch.device("cuda")
FEATURES, CLASSES, BATCH = 64, 10, 32


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(FEATURES, 128), nn.Tanh(), nn.Linear(128, CLASSES)).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2, capturable=True)
        self.x = torch.randn(BATCH, FEATURES, device=device)
        self.y = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.saved = None

    def _forward_backward_step(self):
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self._forward_backward_step()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._forward_backward_step()

    def train(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()

    def save(self):
        self.saved = {
            "model": copy.deepcopy(self.model.state_dict()),
            "opt": copy.deepcopy(self.opt.state_dict()),
        }

    def rollback(self):
        self.model.load_state_dict(self.saved["model"])
        for state, old in zip(self.opt.state.values(), self.saved["opt"]["state"].values()):
            for name, value in old.items():
                state[name].copy_(value)


def main():
    torch.manual_seed(5)
    trainer = Trainer()
    trainer.capture()
    rule = torch.randn(FEATURES, CLASSES, device=device)
    curve = []
    for step in range(80):
        x = torch.randn(BATCH, FEATURES, device=device)
        if step in (30, 55):
            x *= 50.0
        trainer.train(x, (x @ rule).argmax(-1))
        curve.append(trainer.loss.clone())
        if step % 20 == 19:
            trainer.save()
        if step in (31, 56):
            trainer.rollback()
    print("last losses", [round(v, 3) for v in torch.stack(curve[-4:]).tolist()])
    steps = next(iter(trainer.opt.state.values()))["step"].item()
    print("adam step count", steps)


if __name__ == "__main__":
    main()
