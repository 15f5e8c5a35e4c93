import torch

from policy import Policy


class RolloutEngine:
    def __init__(self, vocab, dim, batch, horizon, device):
        self.device, self.batch, self.horizon = torch.device(device), batch, horizon
        self.policy = Policy(vocab, dim).to(device).requires_grad_(False)
        self.token = torch.zeros(batch, dtype=torch.long, device=device)
        self.position = torch.zeros(batch, dtype=torch.long, device=device)
        self.finished = torch.zeros(batch, dtype=torch.bool, device=device)
        self.logprob = torch.zeros(batch, device=device)
        self.cache = self._allocate()
        self.temperature = 1.0
        self._record()

    def _allocate(self):
        return torch.zeros(self.batch, self.horizon, 2 * self.policy.q.out_features, device=self.device)

    def _step(self):
        logits = self.policy.decode(self.token, self.position, self.cache) / self.temperature
        logp = logits.log_softmax(-1)
        gumbel = torch.empty_like(logp).exponential_().log().neg()
        picked = (logp + gumbel).argmax(-1)
        self.logprob.add_(torch.where(self.finished, 0.0, logp.gather(1, picked[:, None])[:, 0]))
        self.token.copy_(torch.where(self.finished, self.token, picked))
        self.finished.logical_or_(picked == 0)
        self.position.add_(1)

    def _record(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self._step()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._step()

    def sleep(self):
        self.cache = None

    def wake(self):
        self.cache = self._allocate()

    def refit(self, state):
        self.policy.load_state_dict({k: v.detach().clone() for k, v in state.items()}, assign=True)

    def set_temperature(self, value):
        self.temperature = value

    def rollout(self, start):
        self.token.copy_(start)
        for buffer in (self.position, self.finished, self.logprob):
            buffer.zero_()
        out = torch.zeros(self.horizon, self.batch, dtype=torch.long, device=self.device)
        for t in range(self.horizon):
            self.graph.replay()
            out[t].copy_(self.token)
            if self.finished.all():
                break
        return out.T.contiguous(), self.logprob.clone()
