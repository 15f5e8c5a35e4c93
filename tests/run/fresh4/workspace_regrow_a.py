"""Attention backend with a scratch buffer shared by eager prefill and graphed decode."""
import torch

DIM, CONTEXT, BATCH = 64, 256, 4
LONGEST_PROMPT = 192


class Scratch:
    def __init__(self, numel, device):
        self.device = device
        self.buf = torch.empty(numel, device=device)

    def view(self, rows, cols):
        need = rows * cols
        if need > self.buf.numel():
            self.buf = torch.empty(2 * need, device=self.device)
        return self.buf[:need].view(rows, cols)


class Attention:
    def __init__(self, device):
        self.wq = torch.randn(DIM, DIM, device=device) * 0.1
        self.wk = torch.randn(DIM, DIM, device=device) * 0.1
        self.keys = torch.zeros(CONTEXT, DIM, device=device)
        self.values = torch.randn(CONTEXT, DIM, device=device)
        self.scratch = Scratch(BATCH * CONTEXT, device)

    def attend(self, x):
        scores = self.scratch.view(x.shape[0], CONTEXT)
        torch.mm(x @ self.wq, self.keys.t(), out=scores)
        scores.mul_(DIM ** -0.5)
        return scores.softmax(-1) @ self.values

    def prefill(self, prompt):
        n = prompt.shape[0]
        self.keys[:n].copy_(prompt @ self.wk)
        return self.attend(prompt)[-1]


class DecodeGraph:
    def __init__(self, attention, device):
        self.x = torch.zeros(BATCH, DIM, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                attention.attend(self.x)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.y = attention.attend(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(3)
    attention = Attention(device)
    decode = DecodeGraph(attention, device)
    kept = []
    for request, length in enumerate((3, 4, LONGEST_PROMPT, 4, 64)):
        hidden = attention.prefill(torch.randn(length, DIM, device=device))
        x = hidden.expand(BATCH, DIM) + 0.01 * request
        for _ in range(10):
            x = torch.tanh(decode(x))
        kept.append(x)
        kept.append(torch.zeros(BATCH * CONTEXT, device=device))  # log-prob store of the request
    print("norm", round(torch.stack(kept[::2]).norm().item(), 4), "stores", sum(k.sum() for k in kept[1::2]).item())


if __name__ == "__main__":
    main()
