import torch

from model import Model


class Engine:
    """Decode engine with RLHF-style weight sync and a sleep mode that gives memory back."""

    def __init__(self, device, batch=4, dim=16, vocab=32):
        self.device = torch.device(device)
        self.batch, self.vocab = batch, vocab
        self.model = Model(dim, vocab=vocab).to(self.device).eval()
        self.memory = torch.zeros(batch, dim, device=self.device)
        self.scratch = torch.empty(batch, vocab, device=self.device)
        self.ids = torch.zeros(batch, dtype=torch.long, device=self.device)
        self.asleep = False
        self.graph = None

    def capture(self):
        run = lambda: self.model(self.ids, self.memory, self.scratch)
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run()
            run()
        torch.cuda.current_stream().wait_stream(stream)
        self.memory.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.picked = run()

    def prefill(self, prompt):
        rows = prompt.numel()
        if rows > self.scratch.shape[0]:
            self.scratch = torch.empty(rows, self.vocab, device=self.device)
        hidden = self.model.embed(prompt.flatten())
        torch.matmul(hidden, self.model.lm.weight.t(), out=self.scratch[:rows])
        self.ids.copy_(self.scratch[:rows].argmax(-1)[-self.batch :])

    def sleep(self):
        self.memory = self.memory.to("cpu")
        self.asleep = True

    def wake_up(self):
        self.memory = self.memory.to(self.device)
        self.asleep = False

    def sync_weights(self, state):
        own = dict(self.model.named_parameters())
        for name, value in state.items():
            own[name].data = value.to(self.device)

    def decode(self):
        assert not self.asleep
        self.graph.replay()
        torch.cuda.synchronize()
        self.ids.copy_(self.picked)
        return self.picked.clone()
