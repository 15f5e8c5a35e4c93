"""A small language model whose logits pass a chain of processors between the graph and the draw."""

import torch
import torch.nn as nn

VOCAB, WIDTH, BATCH, EOS = 120, 32, 3, 1


class RepetitionPenalty:
    def __init__(self, penalty):
        self.penalty = penalty

    def __call__(self, histories, logits):
        for row, history in enumerate(histories):
            seen = sorted(set(history))
            logits[row, seen] = logits[row, seen] / self.penalty
        return logits


class MinimumLength:
    def __init__(self, length):
        self.length = length

    def __call__(self, histories, logits):
        if len(histories[0]) < self.length:
            logits[:, EOS].fill_(-1e9)
        return logits


class EtaCutoff:
    """Drops what is much less likely than the entropy allows."""

    def __init__(self, epsilon=3e-3):
        self.epsilon = epsilon

    def __call__(self, histories, logits):
        for row in logits:
            weight = row.softmax(-1)
            sure = weight[weight > 1e-9]
            entropy = -(sure * sure.log()).sum()
            eta = torch.minimum(torch.full_like(entropy, self.epsilon), self.epsilon**0.5 * (-entropy).exp())
            row.masked_fill_(weight < eta, -1e9)
        return logits


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)
        self.register_buffer("state", torch.zeros(BATCH, WIDTH))

    def forward(self, token):
        self.state.copy_(self.cell(self.embed(token), self.state))
        return self.head(self.state)


class Generator:
    def __init__(self, model, processors):
        self.model = model
        self.processors = processors
        self.token = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(self.token)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = model(self.token)

    def start(self):
        self.model.state = torch.zeros_like(self.model.state)
        self.token.zero_()

    def generate(self, limit):
        self.start()
        histories = [[0] for _ in range(BATCH)]
        for _ in range(limit):
            self.graph.replay()
            logits = self.logits
            for process in self.processors:
                logits = process(histories, logits)
            drawn = torch.multinomial(logits.softmax(-1), 1).squeeze(-1)
            self.token.copy_(drawn)
            for history, number in zip(histories, drawn.tolist(), strict=True):
                history.append(number)
        return histories


@torch.inference_mode()
def main():
    torch.manual_seed(15)
    chain = [RepetitionPenalty(1.3), MinimumLength(8), EtaCutoff()]
    generator = Generator(Model().cuda().eval(), chain)
    texts = [generator.generate(16) for _ in range(2)]
    torch.save(texts, "texts.pt")


if __name__ == "__main__":
    main()
