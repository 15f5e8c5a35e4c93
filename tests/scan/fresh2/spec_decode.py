"""Draft-and-verify decoding with two captured models."""
import time

import torch
from torch import nn


class GRULM(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, state):
        out = []
        for t in range(ids.shape[1]):
            state = torch.tanh(self.mix(torch.cat([self.emb(ids[:, t]), state], -1)))
            out.append(self.head(state))
        return torch.stack(out, 1), state


class CapturedLM:
    def __init__(self, model, batch, tokens, width, device):
        self.model = model
        self.ids = torch.zeros(batch, tokens, dtype=torch.long, device=device)
        self.state = torch.zeros(batch, width, device=device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(2):
                model(self.ids, self.state)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=side):
            self.logits, self.next_state = model(self.ids, self.state)

    def __call__(self, ids, state):
        self.ids.copy_(ids)
        self.state.copy_(state)
        self.graph.replay()
        return self.logits, self.next_state


class SpeculativeEngine:
    def __init__(self, draft, target, gamma):
        self.draft = draft
        self.target = target
        self.gamma = gamma
        self.timings = []

    def propose(self, token, state):
        tokens, states = [token], []
        for _ in range(self.gamma):
            logits, state = self.draft(tokens[-1], state)
            states.append(state)
            tokens.append(logits[:, -1:].argmax(-1))
        return torch.cat(tokens, 1), states

    def verify(self, tokens, state):
        logits, _ = self.target(tokens, state)
        best = logits.argmax(-1)
        agree = (best[:, :-1] == tokens[:, 1:]).long().cumprod(1)
        return best, agree.sum(1)

    def step(self, token, draft_state, target_state):
        begin = time.perf_counter()
        tokens, states = self.propose(token, draft_state)
        best, accepted = self.verify(tokens, target_state)
        keep = int(accepted.min())
        torch.cuda.synchronize()
        self.timings.append(time.perf_counter() - begin)
        return best[:, keep : keep + 1], states[max(keep - 1, 0)], keep + 1


def generate(engine, token, draft_state, target_state, budget):
    made = 0
    while made < budget:
        token, draft_state, n = engine.step(token, draft_state, target_state)
        made += n
    return token


def create(device, vocab=256, width=64, gamma=4):
    draft = CapturedLM(GRULM(vocab, width).to(device).eval(), 1, 1, width, device)
    target = CapturedLM(GRULM(vocab, width).to(device).eval(), 1, gamma + 1, width, device)
    return SpeculativeEngine(draft, target, gamma)
