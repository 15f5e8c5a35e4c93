import torch

from cache import BlockManager
from config import EngineConfig
from runner import DecodeRunner, TinyDecoder


def serve(runner: DecodeRunner, cache: BlockManager, waves, max_new: int):
    logits = []
    for seq_ids, prompt in waves:
        for s in seq_ids:
            cache.admit(s)
        runner.begin(seq_ids, prompt)
        for n in range(1, max_new + 1):
            logits.append(runner.step(context_len=n))
        for s in seq_ids:
            cache.release(s)
    return torch.stack(logits)


def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    cfg = EngineConfig()
    cache = BlockManager(cfg, device)
    runner = DecodeRunner(TinyDecoder(cfg).to(device).eval(), cache, cfg, device)
    runner.capture()
    waves = []
    for w in range(2):
        ids = [w * cfg.max_batch + i for i in range(cfg.max_batch)]
        waves.append((ids, torch.randint(0, cfg.vocab, (cfg.max_batch,), device=device)))
    return serve(runner, cache, waves, max_new=10)


if __name__ == "__main__":
    print(main().argmax(-1).cpu())
