"""A fine-tuning step that counts trained tokens on the device; the host's count is for tokens per second."""
import torch

import graphsafe


class Trainer:
    def __init__(self, device, vocab=16, dim=12):
        self.embed = torch.nn.Embedding(vocab, dim).to(device)
        self.head = torch.nn.Linear(dim, vocab).to(device)
        self.parameters = [*self.embed.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.5)
        self.num_tokens = 0
        self.throughput = []

    def count(self, labels):
        self.num_tokens = int((labels != -100).sum())

    def step(self, tokens, labels):
        logits = self.head(torch.tanh(self.embed(tokens)))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        divisor = (labels != -100).sum().clamp_min(1)
        torch._foreach_div_([p.grad for p in self.parameters], divisor.to(torch.float32))
        self.optimizer.step()
        self.throughput.append(self.num_tokens)
        return loss.detach() / divisor, self.head.weight.detach().sum(1)


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        tokens = torch.randint(0, 16, (4, 10))
        labels = tokens.roll(-1, 1)
        labels[:, : k % 7] = -100
        trainer.count(labels)
        args[0].copy_(tokens)
        args[1].copy_(labels)

    tokens = torch.randint(0, 16, (4, 10), device=device)
    return graphsafe.Step(trainer.step, (tokens, tokens.clone()), refresh=refresh)
