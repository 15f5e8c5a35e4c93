"""Speculative decoding with two captured models: a small draft model and the target."""
import argparse

import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.Linear(2 * dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, state):
        outs = []
        for i in range(ids.shape[1]):
            state = torch.tanh(self.rnn(torch.cat([self.embed(ids[:, i]), state], -1)))
            outs.append(self.head(state))
        return torch.stack(outs, 1), state


class CapturedModel:
    """Owns the static tensors of one model and its graph."""

    def __init__(self, model, width, dim, device, stream):
        self.model = model
        self.temperature = 1.0
        self.ids = torch.zeros(1, width, dtype=torch.long, device=device)
        self.state = torch.zeros(1, dim, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.stream = stream

    def _forward(self):
        logits, state = self.model(self.ids, self.state)
        return (logits / self.temperature).softmax(-1), state

    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.probs, self.next_state = self._forward()
        return self

    def replay(self):
        self.graph.replay()
        return self.probs


class SpeculativeDecoder:
    def __init__(self, device, width=3, vocab=48, dim=24):
        torch.manual_seed(0)
        stream = torch.cuda.Stream(device)
        self.width = width
        self.device = device
        self.draft = CapturedModel(TinyLM(vocab, dim).to(device).eval(), 1, dim, device, stream).capture()
        self.target = CapturedModel(TinyLM(vocab, dim).to(device).eval(), width + 1, dim, device, stream).capture()
        self.last = torch.zeros(1, 1, dtype=torch.long, device=device)

    def start(self, prompt, temperature):
        self.draft.temperature = temperature
        self.target.temperature = temperature
        self.draft.state.zero_()
        self.target.state.zero_()
        self.last.copy_(prompt[:, -1:])

    def propose(self):
        tokens, probs = [self.last], []
        for _ in range(self.width):
            self.draft.ids.copy_(tokens[-1])
            p = self.draft.replay()
            self.draft.state.copy_(self.draft.next_state)
            probs.append(p)
            tokens.append(torch.multinomial(p[:, -1], 1))
        return torch.cat(tokens, 1), torch.cat(probs, 1)

    def verify(self, tokens, draft_probs):
        self.target.ids = tokens
        target_probs = self.target.replay()
        drafted = tokens[:, 1:].unsqueeze(-1)
        p = target_probs[:, :-1].gather(-1, drafted).squeeze(-1)
        q = draft_probs.gather(-1, drafted).squeeze(-1)
        ok = torch.rand_like(p) * q <= p
        accepted = ok.long().cumprod(-1).sum()
        n = accepted.item()
        self.target.state.copy_(self.target.next_state)
        bonus = torch.multinomial(target_probs[:, n], 1)
        self.last.copy_(bonus)
        return torch.cat([tokens[:, 1:1 + n], bonus], 1)

    def generate(self, prompt, temperature, limit):
        self.start(prompt, temperature)
        pieces, total = [], 0
        while total < limit:
            tokens, draft_probs = self.propose()
            new = self.verify(tokens, draft_probs)
            pieces.append(new)
            total += new.shape[1]
        return torch.cat(pieces, 1)[:, :limit]


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=12)
    args = parser.parse_args()
    device = torch.device("cuda")
    decoder = SpeculativeDecoder(device)
    for temperature in (0.7, 1.3):
        prompt = torch.randint(0, 48, (1, 4), device=device)
        print(decoder.generate(prompt, temperature, args.limit).cpu().tolist())


if __name__ == "__main__":
    main()
