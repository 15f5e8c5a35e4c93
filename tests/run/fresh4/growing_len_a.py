"""Greedy decode with a growing context; the attention span of a step is static in its graph."""
import torch

DIM, VOCAB, LIMIT = 48, 80, 96
device = torch.device("cuda")


def span_of(length):
    return min(LIMIT, length)


class State:
    def __init__(self):
        self.embed = torch.randn(VOCAB, DIM, device=device)
        self.wk = torch.randn(DIM, DIM, device=device) * DIM ** -0.5
        self.head = torch.randn(DIM, VOCAB, device=device)
        self.keys = torch.zeros(LIMIT, DIM, device=device)
        self.token = torch.zeros(1, dtype=torch.long, device=device)
        self.pos = torch.zeros(1, dtype=torch.long, device=device)
        self.cols = torch.arange(LIMIT, device=device)


def decode_step(st, span):
    x = st.embed.index_select(0, st.token)
    st.keys.index_copy_(0, st.pos, x @ st.wk)
    scores = (x @ st.keys[:span].t()).masked_fill(st.cols[:span] > st.pos, -1e9)
    mixed = (scores * DIM ** -0.5).softmax(-1) @ st.keys[:span]
    return ((x + mixed) @ st.head).argmax(-1)


class GraphPerSpan:
    def __init__(self, st):
        self.st = st
        self.graphs = {}

    def get(self, span):
        if span not in self.graphs:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                decode_step(self.st, span)
                decode_step(self.st, span)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                nxt = decode_step(self.st, span)
            self.graphs[span] = (graph, nxt)
        return self.graphs[span]


@torch.no_grad()
def generate(steps, first):
    st = State()
    graphs = GraphPerSpan(st)
    st.token.fill_(first)
    produced = torch.empty(steps, dtype=torch.long, device=device)
    for i in range(steps):
        graph, nxt = graphs.get(span_of(i + 1))
        graph.replay()
        st.token.copy_(nxt)
        st.pos.add_(1)
        produced[i : i + 1].copy_(nxt)
    return produced


def main():
    torch.manual_seed(20)
    produced = generate(steps=48, first=7)
    counts = torch.bincount(produced.cpu(), minlength=VOCAB)
    print(f"{produced.numel()} tokens, {int((counts > 0).sum())} distinct, last {produced[-1].item()}")


if __name__ == "__main__":
    main()
