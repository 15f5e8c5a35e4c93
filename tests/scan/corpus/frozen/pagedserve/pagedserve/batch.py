"""What one decode step is about."""

from dataclasses import dataclass, field, fields

import torch


@dataclass
class DecodeBatch:
    scores: torch.Tensor
    seq_lens: torch.Tensor

    @property
    def longest(self):
        return self.seq_lens.max().item()  # guilty: batch_longest GS101


def visible_scores(scores, seq_lens):
    batch = DecodeBatch(scores, seq_lens)
    return scores[:, : batch.longest].softmax(-1).sum(0)


@dataclass
class HostBatch:
    scores: torch.Tensor
    seq_lens_cpu: list = field(default_factory=list)

    # quiet: batch_longest_host
    @property
    def longest(self):
        return max(self.seq_lens_cpu)


# quiet: batch_longest_host
def visible_scores_host(batch, scores):
    batch.scores.copy_(scores)
    return batch.scores[:, : batch.longest].softmax(-1)


@dataclass
class StepInputs:
    tokens: torch.Tensor
    positions: torch.Tensor

    def to_host(self):
        return {f.name: getattr(self, f.name).cpu() for f in fields(self)}  # guilty: inputs_to_host GS103


def log_prob_payload(tokens, positions):
    payload = StepInputs(tokens, positions).to_host()
    return tokens + payload["positions"].to(tokens.device, non_blocking=True)  # guilty: inputs_to_host GS304


@dataclass
class Request:
    length: int
    temperature: float = 1.0


class RequestPool:
    def __init__(self, requests):
        self.requests = requests

    def lengths(self, like):
        return torch.tensor([r.length for r in self.requests], device=like.device)  # guilty: request_lengths GS301

    def mask(self, scores):
        steps = torch.arange(scores.shape[1], device=scores.device)
        return scores.masked_fill(steps >= self.lengths(scores)[:, None], float("-inf")).softmax(-1)


# quiet: request_lengths_static
class StaticRequestPool(RequestPool):
    """The lengths sit in a buffer that the scheduler writes between steps."""

    def __init__(self, requests, device):
        super().__init__(requests)
        self._lengths = torch.tensor([r.length for r in requests], device=device)

    def lengths(self, like):
        return self._lengths


def ragged_last(hidden, query_lens):
    """The last hidden state of each request in a flattened batch."""
    chunks = hidden.split(query_lens.tolist())  # guilty: ragged_last GS101
    return torch.stack([chunk[-1] for chunk in chunks])


# quiet: ragged_last_gather
def ragged_last_gather(hidden, query_lens):
    return hidden[query_lens.cumsum(0) - 1]


class Scheduler:
    """Every request is one token longer than it was."""

    def __init__(self, lens):
        self.lens = list(lens)

    def advance(self):
        self.lens = [n + 1 for n in self.lens]  # guilty: growing_lens GS702
        return max(self.lens)


class ScoringRunner:
    def __init__(self, scheduler):
        self.scheduler = scheduler

    def execute_model(self, scores):
        longest = self.scheduler.advance()
        return scores.narrow(1, 0, longest).softmax(-1).sum(0).sum()  # guilty: growing_lens GS702
