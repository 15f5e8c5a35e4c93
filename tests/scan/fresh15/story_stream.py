"""Writes short stories; a generator yields each token as soon as its replay is queued."""

import torch
import torch.nn as nn

VOCAB, WIDTH, BATCH, STOP = 64, 48, 4, 3


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, token, state, bias):
        state = self.cell(self.embed(token), state)
        return (self.out(state) + bias).argmax(-1), state


class StoryStream:
    def __init__(self, writer):
        self.writer = writer
        self.token = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.state = torch.zeros(BATCH, WIDTH, device="cuda")
        self.bias = torch.zeros(VOCAB, device="cuda")
        self.graph = None

    def advance(self):
        token, state = self.writer(self.token, self.state, self.bias)
        self.token.copy_(token)
        self.state.copy_(state)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.advance()

    def write(self, first, limit):
        self.state.zero_()
        self.token.fill_(first)
        stopped = torch.zeros(BATCH, dtype=torch.bool, device="cuda")
        for _ in range(limit):
            self.graph.replay()
            yield self.token
            stopped |= self.token == STOP
            if stopped.all():
                return

    def forbid(self, words):
        self.bias = torch.zeros(VOCAB, device="cuda")
        self.bias[words] = -1e4


def collect(stream, first, limit=24):
    tokens = list(stream.write(first, limit))
    return torch.stack(tokens, 1)


@torch.inference_mode()
def main():
    torch.manual_seed(5)
    stream = StoryStream(Writer().cuda().eval())
    stream.capture()
    stories = []
    for opening in range(6):
        stream.forbid([opening, opening + 8, 11])
        stories.append(collect(stream, 20 + opening))
    torch.save([story.cpu() for story in stories], "stories.pt")


if __name__ == "__main__":
    main()
