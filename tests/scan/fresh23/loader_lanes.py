"""Sequence tagger: two input slots, one captured step for each, batches uploaded on a stream of their own."""
import math

import numpy as np
import torch
from torch import nn

BATCH, SEQ, VOCAB, TAGS, PAD = 12, 20, 60, 7, -100


class Tagger(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.words = nn.Embedding(VOCAB, width)
        self.mix = nn.Conv1d(width, width, 5, padding=2)
        self.drop = nn.Dropout(0.1)
        self.tags = nn.Linear(width, TAGS)

    def forward(self, ids):
        x = self.words(ids)
        x = x + torch.relu(self.mix(x.transpose(1, 2))).transpose(1, 2)
        return self.tags(self.drop(x))


class Slot:
    def __init__(self, device):
        self.host = torch.zeros(2, BATCH, SEQ, dtype=torch.long, pin_memory=True)
        self.ids = torch.zeros(BATCH, SEQ, dtype=torch.long, device=device)
        self.tags = torch.full((BATCH, SEQ), PAD, dtype=torch.long, device=device)
        self.uploaded = torch.cuda.Event()
        self.used = torch.cuda.Event()
        self.graph = None

    def fill(self, ids, tags, lane):
        self.uploaded.synchronize()
        rows = len(ids)
        view = self.host.numpy()
        view[0, :rows], view[1, :rows] = ids, tags
        view[0, rows:], view[1, rows:] = 0, PAD
        with torch.cuda.stream(lane):
            lane.wait_event(self.used)
            self.ids.copy_(self.host[0], non_blocking=True)
            self.tags.copy_(self.host[1], non_blocking=True)
            self.uploaded.record(lane)


class TaggerFit:
    def __init__(self, device):
        self.device = device
        self.model = Tagger().to(device)
        self.lr = torch.full((), 3e-3, device=device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=self.lr, capturable=True, foreach=True)
        self.totals = torch.zeros(2, device=device)
        self.lane = torch.cuda.Stream(device)
        self.work = torch.cuda.Stream(device)
        self.slots = [Slot(device), Slot(device)]
        self.saved = None

    def _step(self, slot):
        self.opt.zero_grad(set_to_none=True)
        logits = self.model(slot.ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), slot.tags.flatten(), ignore_index=PAD)
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            valid = slot.tags != PAD
            right = ((logits.argmax(-1) == slot.tags) & valid).sum() / valid.sum()
            self.totals.add_(torch.stack([loss.detach(), right]))

    def compile(self):
        example = np.ones((BATCH, SEQ), dtype=np.int64)
        self.lane.wait_stream(torch.cuda.current_stream(self.device))
        for slot in self.slots:
            slot.fill(example, example, self.lane)
        self.work.wait_stream(self.lane)
        self.work.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.work):
            for _ in range(2):
                for slot in self.slots:
                    self._step(slot)
        for slot in self.slots:
            slot.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(slot.graph, stream=self.work):
                self._step(slot)
        with torch.cuda.stream(self.work):
            self.totals.zero_()
            for slot in self.slots:
                slot.used.record(self.work)

    def epoch(self, batches):
        count = 0
        with torch.cuda.stream(self.work):
            for k, (ids, tags) in enumerate(batches):
                slot = self.slots[k % 2]
                slot.fill(ids, tags, self.lane)
                self.work.wait_event(slot.uploaded)
                slot.graph.replay()
                slot.used.record(self.work)
                count += 1
            mean = (self.totals / count).tolist()
            self.totals.zero_()
        return mean

    def schedule(self, epoch, epochs):
        with torch.cuda.stream(self.work):
            self.lr.fill_(3e-3 * 0.5 * (1 + math.cos(math.pi * epoch / epochs)))

    def snapshot(self):
        with torch.cuda.stream(self.work):
            self.saved = {k: v.clone() for k, v in self.model.state_dict().items()}

    def restore(self):
        with torch.cuda.stream(self.work):
            self.model.load_state_dict(self.saved)


def corpus(seed, batches=8):
    rng = np.random.default_rng(seed)
    for k in range(batches):
        rows = BATCH if k + 1 < batches else BATCH - 5
        ids = rng.integers(0, VOCAB, size=(rows, SEQ))
        yield ids, ids % TAGS


def main(device="cuda"):
    torch.manual_seed(3)
    fit = TaggerFit(torch.device(device))
    fit.compile()
    best = float("inf")
    for epoch in range(4):
        fit.schedule(epoch, 4)
        loss, right = fit.epoch(corpus(epoch))
        print(f"epoch {epoch} loss {loss:.4f} accuracy {right:.3f}")
        if loss < best:
            best = loss
            fit.snapshot()
        else:
            fit.restore()


if __name__ == "__main__":
    main()
