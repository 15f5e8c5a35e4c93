import torch

from engine import Engine


def trainer_update(model, seed):
    gen = torch.Generator().manual_seed(seed)
    state = {}
    for name, p in model.named_parameters():
        state[name] = p.detach().cpu() + 0.05 * torch.randn(p.shape, generator=gen)
    return state


def main(device="cuda"):
    torch.manual_seed(0)
    engine = Engine(device)
    with torch.no_grad():
        engine.capture()
        for epoch in range(3):
            prompt = torch.arange(2 * (epoch + 2), device=device).reshape(2, -1)
            engine.prefill(prompt)
            texts = [engine.decode() for _ in range(6)]
            print(epoch, torch.stack(texts, 1).tolist())
            engine.sleep()
            state = trainer_update(engine.model, epoch)
            engine.wake_up()
            engine.sync_weights(state)


if __name__ == "__main__":
    main()
