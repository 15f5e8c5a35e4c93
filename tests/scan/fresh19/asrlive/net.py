import torch
from torch import nn


class StreamingEncoder(nn.Module):
    def __init__(self, mels, hidden):
        super().__init__()
        self.sub = nn.Conv1d(mels, hidden, kernel_size=2, stride=2)
        self.lstm = nn.LSTMCell(hidden, hidden)

    def forward(self, feats, state):
        frames = torch.relu(self.sub(feats)).transpose(1, 2)
        h, c = state
        outs = []
        for t in range(frames.shape[1]):
            h, c = self.lstm(frames[:, t], (h, c))
            outs.append(h)
        return torch.stack(outs, 1), (h, c)


class Joiner(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.emb = nn.Embedding(vocab, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, frame, last):
        return self.out(torch.tanh(frame + self.emb(last)))
