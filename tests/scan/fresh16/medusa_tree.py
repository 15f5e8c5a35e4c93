"""Drafts some tokens with several heads and checks them with the trunk, both in one graph."""

import torch
import torch.nn as nn

VOCAB, WIDTH, CONTEXT, HEADS = 64, 32, 12, 3


class Medusa(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.trunk = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.base = nn.Linear(WIDTH, VOCAB)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, VOCAB) for _ in range(HEADS))

    def forward(self, window):
        hidden = self.trunk(self.embed(window))[0][:, -1]
        first = self.base(hidden).argmax(-1)
        return torch.cat([first.unsqueeze(1)] + [head(hidden).argmax(-1, keepdim=True) for head in self.heads], 1)

    def check(self, window, draft):
        hidden = self.trunk(self.embed(torch.cat((window, draft), 1)))[0]
        return self.base(hidden[:, CONTEXT - 1 : -1]).argmax(-1) == draft


class TreeDecoder:
    def __init__(self, prompt):
        self.model = Medusa().cuda().eval()
        self.window = prompt.cuda().unsqueeze(0)
        self.draft = self.match = None
        self.graph = torch.cuda.CUDAGraph()

    def body(self):
        draft = self.model(self.window)
        return draft, self.model.check(self.window, draft)[0]

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.draft, self.match = self.body()

    def extend(self, count):
        self.window = torch.cat((self.window[:, count:], self.draft[:, :count]), 1)

    def generate(self, rounds):
        chunks = []
        for _ in range(rounds):
            self.graph.replay()
            taken = 1
            while taken <= HEADS and self.match[taken]:
                taken += 1
            chunks.append(self.draft[0, :taken])
            self.extend(taken)
        return torch.cat(chunks)


@torch.inference_mode()
def main():
    torch.manual_seed(11)
    decoder = TreeDecoder(torch.randint(0, VOCAB, (CONTEXT,)))
    decoder.capture()
    tokens = decoder.generate(20)
    torch.save(tokens.cpu(), "story.pt")


if __name__ == "__main__":
    main()
