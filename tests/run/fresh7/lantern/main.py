"""Greedy generation until every sequence has ended, streamed to the caller."""
import torch
from torch import nn

VOCAB, WIDTH, BATCH, LONGEST, END = 64, 32, 6, 40, 7


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.cell = nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)


class Generator:
    def __init__(self, device):
        self.lm = Language().to(device).eval()
        self.token = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.hidden = torch.zeros(BATCH, WIDTH, device=device)
        self.done = torch.zeros(BATCH, dtype=torch.bool, device=device)
        self.graph = torch.cuda.CUDAGraph()

    def step(self):
        mixed = torch.cat([self.lm.embed(self.token), self.hidden], -1)
        self.hidden.copy_(torch.tanh(3.0 * self.lm.cell(mixed)))
        best = self.lm.head(self.hidden).argmax(-1)
        self.token.copy_(torch.where(self.done, torch.full_like(best, END), best))
        self.done.logical_or_(self.token.remainder(3) == END % 3)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.step()

    def reset(self, prompt):
        self.token.copy_(prompt)
        self.hidden.zero_()
        self.done.zero_()

    def stream(self, prompt):
        self.reset(prompt)
        produced = 0
        while produced < LONGEST and not self.done.all():
            self.graph.replay()
            produced += 1
            yield self.token


@torch.no_grad()
def main():
    torch.manual_seed(17)
    device = torch.device("cuda")
    generator = Generator(device)
    generator.capture()
    prompts = torch.randint(0, VOCAB, (5, BATCH)).to(device)
    checksum = torch.zeros((), dtype=torch.long, device=device)
    steps = 0
    for n in range(5):
        for token in generator.stream(prompts[n]):
            checksum.add_(token.sum())
            steps += 1
    print(f"steps {steps} checksum {checksum.item()}")


if __name__ == "__main__":
    main()
