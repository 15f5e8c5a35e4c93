import torch
from torch import nn

VOCAB, DIM, BEAMS, END = 24, 16, 3, 1


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.mix = nn.Linear(DIM, DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, token, memory):
        memory = torch.tanh(self.mix(memory) + self.embed(token))
        return self.head(memory).log_softmax(-1), memory


def capture(model, token, memory, alive, device):
    stream = torch.cuda.Stream(device)

    def step():
        scores, new = model(token, memory)
        return scores.masked_fill(~alive[:, None], -1e4), new

    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.no_grad(), torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
        scores, new = step()
    return graph, scores, new


def search(model, start, limit, device):
    token = torch.full((BEAMS,), start, device=device)
    memory = torch.zeros(BEAMS, DIM, device=device)
    alive = torch.ones(BEAMS, dtype=torch.bool, device=device)
    total = torch.zeros(BEAMS, device=device)
    graph, scores, new = capture(model, token, memory, alive, device)
    finished = []
    for step in range(limit):
        graph.replay()
        joint = total[:, None] + scores
        total, flat = joint.flatten().topk(BEAMS)
        origin = flat // VOCAB
        token.copy_(flat % VOCAB)
        memory, new = new, memory
        alive = alive[origin] & (token != END)
        ended = total[~alive]
        finished.append((step, ended))
        if not alive.any():
            break
    return finished, total


def main():
    torch.manual_seed(4)
    device = torch.device("cuda")
    model = Translator().to(device).eval()
    finished, total = search(model, start=2, limit=5, device=device)
    for step, scores in finished:
        print(step, scores.cpu().tolist())
    print("best", total.max().item())


if __name__ == "__main__":
    main()
