"""Embeds captions; a manager keeps one graph for each length that it meets."""

import torch
import torch.nn as nn

VOCAB, WIDTH, BATCH, LONGEST, PAD = 200, 32, 8, 48, 0


class CaptionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, dropout=0.0)
        self.out = nn.Linear(WIDTH, 16)

    def forward(self, ids, places):
        hidden = self.layer(self.words(ids) + self.places(places))
        return self.out(hidden.mean(1))


class LengthGraphs:
    def __init__(self, net):
        self.net = net
        self.pool = torch.cuda.graph_pool_handle()
        self.entries = {}

    def capture(self, length):
        ids = torch.zeros(BATCH, length, dtype=torch.long, device="cuda")
        places = torch.arange(length, device="cuda").expand(BATCH, -1)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.net(ids, places)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            vectors = self.net(ids, places)
        return graph, ids, vectors

    def length_of(self, ids):
        return int((ids != PAD).sum(1).max())

    def embed(self, ids):
        length = self.length_of(ids)
        if length not in self.entries:
            self.entries.clear()
            self.entries[length] = self.capture(length)
        graph, static, vectors = self.entries[length]
        static.copy_(ids[:, :length])
        graph.replay()
        return vectors.clone()


def captions(count):
    for number in range(count):
        ids = torch.randint(1, VOCAB, (BATCH, LONGEST), device="cuda")
        longest = 12 + 5 * number % 31
        stop = torch.randint(4, longest, (BATCH, 1), device="cuda")
        yield ids.masked_fill(torch.arange(LONGEST, device="cuda") >= stop, PAD)


@torch.inference_mode()
def main():
    torch.manual_seed(26)
    graphs = LengthGraphs(CaptionNet().cuda().eval())
    vectors = [graphs.embed(ids) for ids in captions(20)]
    torch.save(torch.cat(vectors).cpu(), "captions.pt")


if __name__ == "__main__":
    main()
