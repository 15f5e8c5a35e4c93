import torch

from net import Joiner, StreamingEncoder
from session import EncoderGraph, Transcriber


def chunks(feats, size):
    return [feats[:, :, i : i + size] for i in range(0, feats.shape[2], size)]


def main():
    device = torch.device("cuda")
    torch.manual_seed(6)
    graph = EncoderGraph(StreamingEncoder(8, 12).to(device).eval(), 8, 6, 12, device)
    graph.open()
    scribe = Transcriber(graph, Joiner(10, 12).to(device).eval())
    texts, means = [], []
    for frames in (20, 15, 22):
        last = torch.zeros(1, dtype=torch.long, device=device)
        words = []
        for piece in chunks(torch.randn(1, 8, frames, device=device), 6):
            text, last = scribe.feed(piece, last)
            words.extend(text)
        texts.append(torch.cat(words) if words else last)
        means.append(scribe.finish())
    print([t.tolist() for t in texts])
    print(torch.stack(means).norm(dim=1).tolist())


if __name__ == "__main__":
    main()
