"""A session feeds 16-frame chunks to the captured encoder and collects CTC posteriors."""
import torch

from encoder import StreamingEncoder


class Session:
    CHUNK = 16

    def __init__(self, device, batch=2, mels=16):
        self.device = torch.device(device)
        self.model = StreamingEncoder(mels=mels, batch=batch).to(self.device).eval()
        self.chunk = torch.zeros(batch, self.CHUNK, mels, device=self.device)
        self.upload = torch.zeros(batch, self.CHUNK, mels, pin_memory=True)
        self.posteriors = []
        self._capture()

    @torch.no_grad()
    def _capture(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.model(self.chunk)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.model.restart()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.logp = self.model(self.chunk)

    def feed(self, features):
        self.upload.copy_(features)
        self.chunk.copy_(self.upload, non_blocking=True)
        self.graph.replay()
        self.posteriors.append(self.logp)

    def transcript(self):
        joined = torch.cat(self.posteriors, dim=1)
        best = joined.argmax(-1)
        return best, joined.max(-1).values.sum(1)
