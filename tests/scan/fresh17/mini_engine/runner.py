import torch


class Runner:
    def __init__(self, model, device, sizes=(2, 4)):
        self.model, self.device, self.sizes = model, device, sizes
        self.stream = torch.cuda.Stream(device)
        self.graphs, self.outs = {}, {}
        top = max(sizes)
        self.ids = torch.zeros(top, dtype=torch.long, device=device)
        self.slots = torch.zeros(top, dtype=torch.long, device=device)
        self.positions = torch.zeros(top, device=device)

    def _decode(self, n, greedy):
        logits = self.model(self.ids[:n], self.slots[:n], self.positions[:n])
        if greedy:
            return logits.argmax(-1)
        return torch.multinomial(logits.softmax(-1), 1).squeeze(1)

    def _record(self, n, greedy):
        kept = self.model.memory.clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._decode(n, greedy)
        torch.cuda.current_stream().wait_stream(self.stream)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, stream=self.stream):
            self.outs[n] = self._decode(n, greedy)
        self.model.memory.copy_(kept)
        return g

    @torch.no_grad()
    def execute(self, requests):
        n = len(requests)
        size = next(s for s in self.sizes if s >= n)
        greedy = all(r.temperature == 0.0 for r in requests)
        if size not in self.graphs:
            self.graphs[size] = self._record(size, greedy)
        last = [r.produced[-1] if r.produced else r.prompt for r in requests]
        host = torch.tensor([last, [r.slot for r in requests]]).pin_memory()
        moved = host.to(self.device, non_blocking=True)
        self.ids[:n].copy_(moved[0])
        self.slots[:n].copy_(moved[1])
        counts = torch.tensor([float(len(r.produced)) for r in requests])
        counts = torch.nn.functional.pad(counts, (0, len(self.ids) - n)).pin_memory()
        self.positions = counts.to(self.device, non_blocking=True)
        self.graphs[size].replay()
        for r, token in zip(requests, self.outs[size][:n].tolist()):
            r.produced.append(token)
