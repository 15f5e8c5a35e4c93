import time

import torch

from session import Session


def fake_microphone(seconds, batch=2, mels=16):
    gen = torch.Generator().manual_seed(4)
    for _ in range(seconds):
        yield torch.randn(batch, 2 * Session.CHUNK, mels, generator=gen)


def main(device="cuda"):
    torch.manual_seed(0)
    session = Session(device)
    latency = []
    for features in fake_microphone(10):
        begin = time.perf_counter()
        for part in features.split(Session.CHUNK, dim=1):
            session.feed(part)
        if len(latency) > 1:
            torch.cuda.current_stream().synchronize()
        latency.append(time.perf_counter() - begin)
    words, score = session.transcript()
    print(words.shape, score.tolist(), f"{1e3 * max(latency):.1f} ms")


if __name__ == "__main__":
    main()
