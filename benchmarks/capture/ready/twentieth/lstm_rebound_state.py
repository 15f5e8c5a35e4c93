"""Stateful LSTM language model (PyTorch word_language_model): the hidden state is detached and kept as an attribute."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class RNNModel(nn.Module):
    def __init__(self, vocab=50, d=24, layers=2):
        super().__init__()
        self.encoder = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d, layers)
        self.decoder = nn.Linear(d, vocab)

    def forward(self, ids, hidden):
        out, hidden = self.rnn(self.encoder(ids), hidden)
        return self.decoder(out), hidden


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


class Trainer:
    def __init__(self, device, batch=4):
        self.model = RNNModel().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.5)
        self.hidden = (torch.zeros(2, batch, 24, device=device), torch.zeros(2, batch, 24, device=device))

    def train_step(self, ids, target):
        self.hidden = repackage_hidden(self.hidden)
        self.opt.zero_grad(set_to_none=True)
        logits, self.hidden = self.model(ids, self.hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
        self.opt.step()
        return loss.detach()


def build(device, batch=4, bptt=6):
    t = Trainer(device, batch)
    ids = torch.randint(0, 50, (bptt, batch), device=device)
    target = torch.randint(0, 50, (bptt, batch), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 50, (bptt, batch)))
        args[1].copy_(torch.randint(0, 50, (bptt, batch)))

    return graphsafe.Step(t.train_step, (ids, target), refresh=refresh)
