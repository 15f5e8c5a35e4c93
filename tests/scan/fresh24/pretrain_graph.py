"""Pre-training of a small causal model; the whole step, optimizer included, is one CUDA graph."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalConvMixer(nn.Module):
    def __init__(self, width, kernel=5):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.conv = nn.Conv1d(width, width, kernel, groups=width)
        self.gate, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.left = kernel - 1

    def forward(self, x):
        h = self.norm(x)
        mixed = self.conv(F.pad(h.transpose(1, 2), (self.left, 0))).transpose(1, 2)
        return x + self.out(mixed * torch.sigmoid(self.gate(h)))


class CharModel(nn.Module):
    def __init__(self, vocab, width=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.Sequential(*(CausalConvMixer(width) for _ in range(depth)))
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.drop(self.blocks(self.embed(ids))))


class Text:
    def __init__(self, length, vocab, seed=0):
        gen = torch.Generator().manual_seed(seed)
        steps = torch.randint(0, 5, (length,), generator=gen)
        self.data = steps.cumsum(0) % vocab
        self.gen = gen

    def window(self, batch, length, out):
        begins = torch.randint(0, self.data.shape[0] - length, (batch,), generator=self.gen)
        torch.stack([self.data[b : b + length] for b in begins.tolist()], out=out)


class PinnedFeeder:
    """Two pinned buffers; one is filled on the host while the other may still be copied."""

    def __init__(self, text, batch, length):
        self.text, self.batch, self.length = text, batch, length
        self.buffers = [torch.zeros(batch, length, dtype=torch.int64, pin_memory=True) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0

    def feed(self, static):
        host, done = self.buffers[self.turn], self.copied[self.turn]
        done.synchronize()
        self.text.window(self.batch, self.length, host)
        static.copy_(host, non_blocking=True)
        done.record()
        self.turn = 1 - self.turn


class StepGraph:
    def __init__(self, model, batch, length, device, peak):
        self.model, self.device, self.peak = model, device, peak
        self.ids = torch.zeros(batch, length, dtype=torch.int64, device=device)
        self.lr = torch.tensor(0.0, device=device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=self.lr, capturable=True, foreach=True)
        self.running = torch.zeros((), device=device)
        self.graph = None

    def _train(self):
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(self.ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.running.lerp_(loss.detach(), 0.1)

    def capture(self, warmup=3):
        stream = torch.cuda.Stream(self.device)
        main = torch.cuda.current_stream(self.device)
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            for _ in range(warmup):
                self._train()
        main.wait_stream(stream)
        self.running.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._train()

    def rate(self, step, warmup, total):
        if step < warmup:
            return self.peak * (step + 1) / warmup
        done = (step - warmup) / max(1, total - warmup)
        return self.peak * 0.5 * (1 + math.cos(math.pi * done))

    def replay(self, rate):
        self.lr.fill_(rate)
        self.graph.replay()


class Journal:
    """Losses of the steps, kept on the device until somebody wants them."""

    def __init__(self, steps, device):
        self.values = torch.zeros(steps, device=device)

    def write(self, step, value):
        self.values[step].copy_(value)

    def report(self):
        rows = self.values.view(-1, self.values.shape[0] // 4).mean(1).tolist()
        return " ".join(f"{v:.3f}" for v in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=24)
    args = parser.parse_args()
    device = torch.device("cuda", 0)
    torch.manual_seed(3)
    model = CharModel(vocab=24).to(device)
    feeder = PinnedFeeder(Text(4000, 24), args.batch, args.length)
    trainer = StepGraph(model, args.batch, args.length, device, peak=3e-3)
    feeder.feed(trainer.ids)
    trainer.capture()
    journal = Journal(args.steps, device)
    for step in range(args.steps):
        feeder.feed(trainer.ids)
        trainer.replay(trainer.rate(step, warmup=8, total=args.steps))
        journal.write(step, trainer.running)
    print("loss:", journal.report())


if __name__ == "__main__":
    main()
