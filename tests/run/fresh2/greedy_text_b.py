"""Greedy decode of one sequence with an end-of-text token."""
import torch

DEV = torch.device("cuda")
VOCAB, DIM, EOS, LIMIT = 400, 64, 0, 40


class Decoder:
    def __init__(self):
        gen = torch.Generator().manual_seed(40)
        self.emb = torch.randn(VOCAB, DIM, generator=gen).to(DEV)
        self.cell = (torch.randn(DIM, DIM, generator=gen) / 8).to(DEV)
        bias = torch.zeros(VOCAB)
        bias[EOS] = -50.0
        self.bias = bias.to(DEV)
        self.state = torch.zeros(1, DIM, device=DEV)
        self.token = torch.ones(1, dtype=torch.long, device=DEV)
        self.text = torch.zeros(LIMIT, dtype=torch.long, device=DEV)
        self.pos = torch.zeros(1, dtype=torch.long, device=DEV)

    def step(self):
        self.state.copy_(torch.tanh(self.state @ self.cell + self.emb[self.token]))
        logits = self.state @ self.emb.t() + self.bias
        self.token.copy_(logits.argmax(-1))
        self.text.scatter_(0, self.pos, self.token)
        self.pos.add_(1).clamp_(max=LIMIT - 1)

    def reset(self):
        self.state.zero_()
        self.token.fill_(1)
        self.text.zero_()
        self.pos.zero_()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()
        self.reset()


def generate(dec):
    for _ in range(LIMIT):
        dec.graph.replay()
    ids = dec.text.tolist()
    return ids[:ids.index(EOS)] if EOS in ids else ids


@torch.no_grad()
def main():
    dec = Decoder()
    dec.capture()
    ids = generate(dec)
    print(sum(ids))


if __name__ == "__main__":
    main()
