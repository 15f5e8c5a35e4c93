"""Runs the model on a batch."""

import torch
from torch import nn

from .sampling import SAMPLERS


class TinyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.hidden)
        self.head = nn.Linear(config.hidden, config.vocab)

    def forward(self, tokens):
        return self.head(self.embed(tokens))


class BaseRunner:
    def __init__(self, config, device):
        self.config = config
        self.device = device
        self.model = TinyModel(config).to(device).eval()

    @torch.inference_mode()
    def execute_model(self, tokens):
        logits = self.compute(tokens)
        return self.postprocess(tokens, logits)

    def compute(self, tokens):
        return self.model(tokens)

    def postprocess(self, tokens, logits):
        raise NotImplementedError


class StoppingRunner(BaseRunner):
    def postprocess(self, tokens, logits):
        picked = logits.argmax(-1)
        if (picked == self.config.eos).all():  # guilty: all_stopped GS102
            return torch.full_like(logits, -1.0)
        return logits


# quiet: stop_flags
class FlaggingRunner(BaseRunner):
    def postprocess(self, tokens, logits):
        finished = logits.argmax(-1) == self.config.eos
        return torch.where(finished[:, None], -1.0, logits)


class EventedRunner(BaseRunner):
    """Lets the detokenizer know when the tokens are there."""

    def __init__(self, config, device):
        super().__init__(config, device)
        self.events = {"tokens": torch.cuda.Event()} if device.type == "cuda" else {}

    def _wait(self, name):
        if event := self.events.get(name):
            event.record()
            event.synchronize()  # guilty: token_event GS105

    def postprocess(self, tokens, logits):
        picked = logits.topk(2).values
        self._wait("tokens")
        return picked


class OffsetRunner(BaseRunner):
    """Positions follow from how many steps were made."""

    def __init__(self, config, device):
        super().__init__(config, device)
        self.state = {"offset": 0}
        self.table = torch.randn(64, config.vocab, device=device)

    def postprocess(self, tokens, logits):
        self.state["offset"] += 1  # guilty: offset_entry GS702
        return logits + self.table[self.state["offset"]]  # guilty: offset_entry GS702


# quiet: offset_tensor
class OffsetTensorRunner(BaseRunner):
    def __init__(self, config, device):
        super().__init__(config, device)
        self.offset = torch.zeros(1, dtype=torch.long, device=device)
        self.table = torch.randn(64, config.vocab, device=device)

    def postprocess(self, tokens, logits):
        self.offset.add_(1)
        return logits + self.table.index_select(0, self.offset)


class LookaheadRunner(BaseRunner):
    """Keeps last step's draft to verify it now."""

    def __init__(self, config, device):
        super().__init__(config, device)
        self.draft = torch.zeros(config.max_batch, config.vocab, device=device)

    def postprocess(self, tokens, logits):
        agreed = (self.draft - logits).abs()
        self.draft = logits.roll(1, -1)  # guilty: last_draft GS703
        return agreed


# quiet: last_draft_kept
class LookaheadBufferRunner(LookaheadRunner):
    def postprocess(self, tokens, logits):
        agreed = (self.draft - logits).abs()
        self.draft.copy_(logits.roll(1, -1))
        return agreed


class WorkspaceRunner(BaseRunner):
    """One workspace a shape, made on first use."""

    def __init__(self, config, device):
        super().__init__(config, device)
        self.workspaces = {}

    # quiet: workspaces
    def _workspace(self, like):
        key = tuple(like.shape)
        if key not in self.workspaces:
            self.workspaces[key] = torch.empty_like(like)
        return self.workspaces[key]

    # quiet: workspaces
    def postprocess(self, tokens, logits):
        out = self._workspace(logits)
        torch.softmax(logits, -1, out=out)
        return out


class VocabRunner(BaseRunner):
    """Scores only the tokens in use, as the first batch showed them."""

    def __init__(self, config, device):
        super().__init__(config, device)
        self.used = None

    def compute(self, tokens):
        if self.used is None:
            used = torch.zeros(self.config.vocab, device=tokens.device)
            self.used = used.index_fill_(0, tokens, 1.0)  # guilty: used_vocab GS701
        return self.model(tokens) * self.used

    def postprocess(self, tokens, logits):
        return logits.softmax(-1)


class MixedRunner(BaseRunner):
    """Takes the sampler from the request."""

    def __init__(self, config, device, kind):
        super().__init__(config, device)
        self.sampler = SAMPLERS[kind]
        self.lengths_cpu = torch.tensor([3, 4, 2, 1])

    # quiet: host_lengths
    def postprocess(self, tokens, logits):
        longest = int(self.lengths_cpu.max())
        if longest > 2 and (self.lengths_cpu > 0).all():
            logits = logits * longest
        return self.sampler(logits)
