"""An evaluation engine with callbacks, as the small training frameworks have them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Callback:
    def on_begin(self, engine):
        pass

    def on_step(self, number, outputs):
        pass

    def on_end(self, engine):
        pass


class KeepLogits(Callback):
    def on_begin(self, engine):
        self.kept = []

    def on_step(self, number, outputs):
        self.kept.append(outputs["logits"])

    def on_end(self, engine):
        engine.results["logits"] = torch.cat(self.kept)


class BestBatch(Callback):
    def __init__(self):
        self.best = None
        self.number = -1

    def on_step(self, number, outputs):
        loss = outputs["loss"]
        if self.best is None or loss < self.best:
            self.best = loss
            self.number = number

    def on_end(self, engine):
        engine.results["best"] = self.number


class Progress(Callback):
    def __init__(self, every=5):
        self.every = every

    def on_step(self, number, outputs):
        if number % self.every == 0:
            print(f"batch {number}: loss {outputs['loss']:.4f}")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 7))

    def forward(self, x, y):
        logits = self.layers(x)
        return {"logits": logits, "loss": F.cross_entropy(logits, y)}


class Evaluator:
    def __init__(self, net, batch, callbacks):
        self.net = net
        self.callbacks = callbacks
        self.results = {}
        self.x = torch.zeros(batch, 24, device="cuda")
        self.y = torch.zeros(batch, dtype=torch.long, device="cuda")

    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.net(self.x, self.y)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = self.net(self.x, self.y)

    def run(self, batches):
        for callback in self.callbacks:
            callback.on_begin(self)
        for number, (x, y) in enumerate(batches):
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            for callback in self.callbacks:
                callback.on_step(number, self.outputs)
        for callback in self.callbacks:
            callback.on_end(self)
        return self.results


def batches(count, size):
    generator = torch.Generator("cuda").manual_seed(3)
    for _ in range(count):
        x = torch.randn(size, 24, device="cuda", generator=generator)
        yield x, x[:, :7].argmax(1)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    net = Net().cuda().eval()
    evaluator = Evaluator(net, 16, [KeepLogits(), BestBatch(), Progress()])
    evaluator.prepare()
    results = evaluator.run(batches(20, 16))
    torch.save(results, "evaluation.pt")


if __name__ == "__main__":
    main()
