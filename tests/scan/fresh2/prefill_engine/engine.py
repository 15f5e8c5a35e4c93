import torch

from .cache import SlotCache
from .model import Decoder


class Engine:
    def __init__(self, model, slots, length, device):
        self.model = model
        self.device = device
        self.length = length
        self.cache = SlotCache.allocate(slots, model.heads, length, model.dim, device)
        self.last = torch.zeros(slots, 1, dtype=torch.long, device=device)
        self.free = list(range(slots))
        self.graph = None

    @torch.inference_mode()
    def prefill(self, prompt):
        """Runs eagerly, once for each request."""
        slot = self.free.pop()
        ids = torch.tensor([prompt], device=self.device)
        logits, k, v = self.model.prompt(ids)
        if not torch.isfinite(logits[:, -1]).all():
            self.free.append(slot)
            raise ValueError("prompt overflows")
        self.cache.put_prompt(slot, k[0], v[0])
        self.cache.used[slot] = ids.shape[1]
        first = logits[0, -1].argmax().item()
        self.last[slot] = first
        return slot, first

    @torch.no_grad()
    def decode(self, last):
        logits = self.model.token(last, self.cache)
        self.cache.used.add_(1).clamp_(max=self.length - 1)
        return logits[:, -1].argmax(-1, keepdim=True)

    def warm_decode(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.decode(self.last)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.next = self.decode(self.last)
        self.cache.used.zero_()

    def generate(self, prompts, steps):
        started = [self.prefill(p) for p in prompts]
        made = []
        for _ in range(steps):
            self.graph.replay()
            self.last.copy_(self.next)
            made.append(self.next.clone())
        tokens = torch.cat(made, 1).tolist()
        return [[first] + tokens[slot] for slot, first in started]


def build(device):
    torch.manual_seed(0)
    engine = Engine(Decoder().to(device).eval(), 3, 64, device)
    for n in (5, 9):
        engine.prefill(list(range(1, n)))
    return engine.decode, (engine.last,)
