import torch


class EncoderGraph:
    def __init__(self, encoder, mels, chunk, hidden, device):
        self.encoder, self.chunk, self.device = encoder, chunk, device
        self.feats = torch.zeros(1, mels, chunk, device=device)
        self.h = torch.zeros(1, hidden, device=device)
        self.c = torch.zeros(1, hidden, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()

    def _run(self):
        out, (h, c) = self.encoder(self.feats, (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return out

    @torch.no_grad()
    def open(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._run()
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.encoded = self._run()

    def restart(self):
        self.h = torch.zeros_like(self.h)
        self.c.zero_()

    def __call__(self, feats):
        n = feats.shape[2]
        self.feats[:, :, :n].copy_(feats)
        self.graph.replay()
        return self.encoded


class Transcriber:
    BLANK = 0

    def __init__(self, encoder, joiner, limit=3):
        self.encoder, self.joiner, self.limit = encoder, joiner, limit
        self.frames = []

    @torch.no_grad()
    def feed(self, feats, last):
        text = []
        encoded = self.encoder(feats)
        self.frames.append(encoded)
        for t in range(encoded.shape[1]):
            for _ in range(self.limit):
                token = self.joiner(encoded[:, t], last).argmax(-1)
                if token == self.BLANK:
                    break
                text.append(token)
                last = token
        return text, last

    def finish(self):
        frames = torch.cat(self.frames, 1)
        self.frames.clear()
        self.encoder.restart()
        return frames.mean((0, 1))
