"""A text classifier; graphs are kept under (batch, padded length)."""
import random

import torch
import torch.nn.functional as F
from torch import nn

PAD = 0
LENGTHS = (16, 32, 64)
BATCH = 4


class Classifier(nn.Module):
    def __init__(self, vocab=300, width=40, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=PAD)
        self.fc = nn.Linear(width, classes)

    def forward(self, ids):
        mask = (ids != PAD).unsqueeze(-1).float()
        pooled = (self.embed(ids) * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        return F.log_softmax(self.fc(pooled), dim=-1)


class Dispatcher:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.table = {}
        for length in LENGTHS:
            self.table[(BATCH, length)] = self.record(BATCH, length)

    def record(self, batch, length):
        ids = torch.full((batch, length), PAD, dtype=torch.long, device=self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.model(ids)
            self.model(ids)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            scores = self.model(ids)
        return graph, ids, scores

    @staticmethod
    def pad(ids, length):
        return F.pad(ids, (0, length - ids.shape[1]), value=PAD)

    def __call__(self, ids):
        bucket = next(b for b in LENGTHS if b >= ids.shape[1])
        entry = self.table.get((ids.shape[0], bucket))
        if entry is None:
            return self.model(ids.to(self.device))
        graph, static, scores = entry
        static.copy_(self.pad(ids, bucket))
        graph.replay()
        return scores


def texts(rng, count):
    for k in range(count):
        length = LENGTHS[k // 10 % 3] if k % 10 == 0 else rng.randint(5, 64)
        yield torch.randint(1, 300, (BATCH, length))


@torch.inference_mode()
def main():
    torch.manual_seed(8)
    device = torch.device("cuda")
    model = Classifier().to(device).eval()
    dispatch = Dispatcher(model, device)
    histogram = torch.zeros(5, dtype=torch.long)
    for ids in texts(random.Random(8), 60):
        labels = dispatch(ids).argmax(dim=-1).cpu()
        histogram += torch.bincount(labels, minlength=5)
    print("labels", histogram.tolist())


if __name__ == "__main__":
    main()
