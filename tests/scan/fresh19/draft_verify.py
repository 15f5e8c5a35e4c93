import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, vocab, width, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.unembed = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        scale = torch.arange(1, ids.shape[-1] + 1, device=ids.device)[:, None]
        for block in self.blocks:
            x = x + torch.tanh(block(x.cumsum(-2) / scale))
        return self.unembed(x)


def capture(fn, stream):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            fn()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = fn()
    return graph, out


class SpecDecoder:
    CONTEXT = 12

    def __init__(self, draft, target, gamma, device):
        self.draft, self.target, self.gamma = draft, target, gamma
        self.context = torch.zeros(self.CONTEXT, dtype=torch.long, device=device)
        self.window = torch.zeros(self.CONTEXT + gamma, dtype=torch.long, device=device)
        stream = torch.cuda.Stream(device)
        with torch.no_grad():
            self.draft_graph, self.proposal = capture(self._draft, stream)
            self.verify_graph, self.verdict = capture(self._verify, stream)

    def _draft(self):
        ids = self.context
        for _ in range(self.gamma):
            ids = torch.cat([ids, self.draft(ids)[-1:].argmax(-1)])
        return ids[self.CONTEXT:]

    def _verify(self):
        picks = self.target(self.window)[self.CONTEXT - 1 :].argmax(-1)
        agree = (picks[:-1] == self.window[self.CONTEXT:]).long().cumprod(0)
        return agree.sum(), picks

    def round(self):
        self.draft_graph.replay()
        self.window = torch.cat([self.context, self.proposal])
        self.verify_graph.replay()
        count, picks = self.verdict
        kept = int(count)
        tokens = picks[: kept + 1]
        self.context.copy_(torch.cat([self.context, tokens])[-self.CONTEXT:])
        return kept, tokens

    def adapt(self, rate):
        if rate > 0.8:
            self.gamma = min(self.gamma + 1, 8)
        elif rate < 0.3:
            self.gamma = max(self.gamma - 1, 1)


def main():
    device = torch.device("cuda")
    torch.manual_seed(11)
    target = Mixer(40, 24, 3).to(device).eval()
    draft = Mixer(40, 24, 1).to(device).eval()
    draft.embed.load_state_dict(target.embed.state_dict())
    draft.unembed.load_state_dict(target.unembed.state_dict())
    spec = SpecDecoder(draft, target, 3, device)
    spec.context.copy_(torch.randint(0, 40, (12,), device=device))
    rate, text = 0.5, []
    for step in range(14):
        kept, tokens = spec.round()
        rate = 0.7 * rate + 0.3 * kept / spec.gamma
        text.append(tokens)
        if step % 4 == 3:
            spec.adapt(rate)
    print(rate, torch.cat(text).tolist())


if __name__ == "__main__":
    main()
