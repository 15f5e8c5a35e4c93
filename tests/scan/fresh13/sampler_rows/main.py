"""A decode loop of fixed length; stop tokens are masked on the device and texts are read after the loop."""

import torch
import torch.nn as nn
from hub import Rows, SamplerHub, SamplingParams

VOCAB, WIDTH, STOP, LIMIT = 150, 32, 7, 16


class Server:
    def __init__(self):
        self.embed = nn.Embedding(VOCAB, WIDTH).cuda().requires_grad_(False)
        self.head = nn.Linear(WIDTH, VOCAB).cuda().requires_grad_(False)
        self.hub = SamplerHub(VOCAB)

    def decode(self, batch, params):
        rows = Rows.uniform(batch, params)
        last = torch.full((batch,), 1, dtype=torch.long, device="cuda")
        counts = torch.zeros(batch, VOCAB, device="cuda")
        stopped = torch.zeros(batch, dtype=torch.bool, device="cuda")
        text = torch.full((batch, LIMIT), STOP, dtype=torch.long, device="cuda")
        for place in range(LIMIT):
            logits = self.head(self.embed(last))
            last = self.hub.sample(logits, counts, rows)
            last.masked_fill_(stopped, STOP)
            counts.scatter_add_(1, last.unsqueeze(1), torch.ones_like(counts[:, :1]))
            text[:, place].copy_(last)
            stopped.logical_or_(last == STOP)
        return text


@torch.inference_mode()
def main():
    torch.manual_seed(12)
    server = Server()
    kinds = [SamplingParams(), SamplingParams(0.7, 0.5, 5), SamplingParams(1.2, 2.0, 50)]
    texts = [server.decode(2 + number % 2, params) for number, params in enumerate(kinds * 2)]
    torch.save(texts, "texts.pt")


if __name__ == "__main__":
    main()
