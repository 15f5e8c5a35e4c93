"""Token sampling by the Gumbel trick with a generator that the sampler owns."""
import torch

device = torch.device("cuda")
VOCAB = 64


class Sampler:
    def __init__(self, batch, seed):
        self.logits = torch.zeros(batch, VOCAB, device=device)
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(seed)
        self.host = torch.Generator().manual_seed(seed)
        self.graph = None
        self.tokens = None

    def noise(self):
        u = torch.empty_like(self.logits)
        try:
            return u.exponential_(generator=self.generator)
        except RuntimeError:
            cpu = torch.empty(self.logits.shape).exponential_(generator=self.host)
            return u.copy_(cpu)

    def pick(self):
        probs = torch.softmax(self.logits, dim=-1)
        keep = probs >= probs.amax(dim=-1, keepdim=True) * 0.02
        kept = probs * keep
        return (kept / self.noise()).argmax(dim=-1)

    def compile(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.pick()
            self.pick()
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(self.generator)
            try:
                graph.capture_begin()
                try:
                    tokens = self.pick()
                finally:
                    graph.capture_end()
                self.graph, self.tokens = graph, tokens
            except RuntimeError:
                self.graph = None
        torch.cuda.current_stream().wait_stream(stream)
        return self.graph is not None

    def __call__(self, logits):
        self.logits.copy_(logits)
        if self.graph is None:
            return self.pick()
        self.graph.replay()
        return self.tokens


@torch.no_grad()
def main():
    sampler = Sampler(batch=8, seed=42)
    sampler.compile()
    gen = torch.Generator().manual_seed(0)
    counts = torch.zeros(VOCAB, dtype=torch.long)
    for _ in range(25):
        logits = torch.randn(8, VOCAB, generator=gen) * 2
        tokens = sampler(logits).cpu()
        counts += torch.bincount(tokens, minlength=VOCAB)
    print("distinct", int((counts > 0).sum()), "drawn", int(counts.sum()))


if __name__ == "__main__":
    main()
