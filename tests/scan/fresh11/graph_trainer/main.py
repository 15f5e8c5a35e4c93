import torch
import torch.nn as nn
import torch.nn.functional as F

from callbacks import ConsoleLog, StepCounter
from ema import ModelEMA
from optim import Lion, WarmupCosine


class GraphTrainer:
    def __init__(self, model, device, callbacks=(), peak_lr=3e-3):
        self.model, self.device = model, device
        self.optimizer = Lion(model.parameters(), lr=peak_lr / 10)
        self.schedule = WarmupCosine(self.optimizer, peak=peak_lr, warmup=10)
        self.ema = ModelEMA(model)
        self.callbacks = list(callbacks)
        self.x = torch.zeros(16, 12, device=device)
        self.y = torch.zeros(16, 3, device=device)
        self.loss = None
        self.graph = None

    def _train_step(self):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.ema.update(self.model)
        return loss.detach()

    def build_graph(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._train_step()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self._train_step()

    def fit(self, batches):
        for step, (x, y) in enumerate(batches):
            self.schedule.step()
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            for cb in self.callbacks:
                cb.on_step(step, self.loss)


def main(device="cuda"):
    torch.manual_seed(4)
    device = torch.device(device)
    model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 3)).to(device)
    xs = torch.randn(8, 16, 12, device=device)
    ys = xs[..., :3] * 0.5
    trainer = GraphTrainer(model, device, [ConsoleLog(), StepCounter()])
    trainer.build_graph()
    trainer.fit(zip(xs, ys))
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    shadow = nn.utils.parameters_to_vector(trainer.ema.shadow.parameters())
    return {"model": flat, "ema": shadow}


if __name__ == "__main__":
    print({k: v.norm().item() for k, v in main().items()})
