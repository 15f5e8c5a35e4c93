"""Decoder with a static KV cache; the captured token step depends on the sampling settings.  Run with --waits.

Equal settings are one key, whoever built them.  Tokens stay on the card until all requests are
through: behind an EOS the replays go on and the host cuts the text there.
"""
from dataclasses import dataclass

import torch

DEV = torch.device("cuda")
VOCAB, DIM, CONTEXT, NEW, REQUESTS, EOS = 80, 64, 24, 6, 6, 0


@dataclass(frozen=True)
class Sampling:
    """How a request wants its tokens."""

    temperature: float
    top_k: int


class Decoder:
    def __init__(self):
        g = torch.Generator().manual_seed(17)
        weight = lambda *shape: (torch.randn(*shape, generator=g) / shape[0] ** 0.5).to(DEV)
        self.emb = weight(VOCAB, DIM) * VOCAB ** 0.5
        self.wq, self.wk, self.wv, self.head = weight(DIM, DIM), weight(DIM, DIM), weight(DIM, DIM), weight(DIM, VOCAB)
        self.gumbel = -torch.log(-torch.log(torch.rand(CONTEXT, VOCAB, generator=g))).to(DEV)
        self.place = torch.arange(CONTEXT, device=DEV)
        self.keys = torch.zeros(CONTEXT, DIM, device=DEV)
        self.values = torch.zeros(CONTEXT, DIM, device=DEV)
        self.token = torch.zeros(1, dtype=torch.long, device=DEV)
        self.pos = torch.zeros(1, dtype=torch.long, device=DEV)

    def reset(self, first):
        self.keys.zero_()
        self.values.zero_()
        self.pos.zero_()
        self.token.fill_(first)

    def step(self, sampling):
        x = self.emb.index_select(0, self.token)
        self.keys.index_copy_(0, self.pos, x @ self.wk)
        self.values.index_copy_(0, self.pos, x @ self.wv)
        bias = torch.zeros(CONTEXT, device=DEV).masked_fill(self.place > self.pos, float("-inf"))
        att = torch.softmax((x @ self.wq) @ self.keys.t() / DIM ** 0.5 + bias, dim=-1)
        logits = (x + att @ self.values) @ self.head / sampling.temperature
        best, where = logits.topk(sampling.top_k, dim=-1)
        noisy = best + self.gumbel.index_select(0, self.pos).gather(1, where)
        self.token.copy_(where.gather(1, noisy.argmax(dim=-1, keepdim=True)).view(1))
        self.pos.add_(1)


class Engine:
    def __init__(self, decoder):
        self.decoder = decoder
        self.graphs = {}

    def graph_for(self, sampling):
        if sampling not in self.graphs:
            warm = torch.cuda.Stream()
            warm.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(warm):
                self.decoder.step(sampling)
            torch.cuda.current_stream().wait_stream(warm)
            self.graphs[sampling] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[sampling]):
                self.decoder.step(sampling)
        return self.graphs[sampling]

    def generate(self, page, first, temperature, top_k):
        graph = self.graph_for(Sampling(temperature, top_k))
        self.decoder.reset(first)
        for place in page.split(1):
            graph.replay()
            place.copy_(self.decoder.token)


def cut(tokens):
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


def eager(first, temperature, top_k):
    decoder, text = Decoder(), []
    decoder.reset(first)
    for _ in range(NEW):
        decoder.step(Sampling(temperature, top_k))
        text.append(int(decoder.token))
        if text[-1] == EOS:
            break
    return text


@torch.no_grad()
def main():
    requests = [(7 * n + 3, (0.7, 1.3)[n % 2], 12) for n in range(REQUESTS)]
    engine = Engine(Decoder())
    pages = torch.zeros(REQUESTS, NEW, dtype=torch.long, device=DEV)
    for page, request in zip(pages, requests):
        engine.generate(page, *request)
    texts = [cut(tokens) for tokens in pages.tolist()]
    print("values right" if texts == [eager(*r) for r in requests] else "values wrong")


if __name__ == "__main__":
    main()
