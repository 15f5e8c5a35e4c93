"""Continues a prompt speculatively."""

import torch
from models import LENGTH, VOCAB, Decoder
from rounds import Speculator


def prefill(speculator, prompt):
    speculator.draft(prompt[:-1], 0)
    speculator.verifier.target(prompt[:-1], 0)
    return prompt[-1], prompt.shape[0] - 1


def continued(speculator, prompt, limit):
    token, start = prefill(speculator, prompt)
    text = [prompt]
    while start < limit:
        new = speculator.round(token, start)
        text.append(new)
        token, start = new[-1], start + new.shape[0]
    return torch.cat(text)


@torch.inference_mode()
def main():
    torch.manual_seed(20)
    speculator = Speculator(Decoder(16).cuda().eval(), Decoder(48).cuda().eval())
    prompt = torch.randint(0, VOCAB, (8,), device="cuda")
    torch.save(continued(speculator, prompt, LENGTH - 16), "text.pt")


if __name__ == "__main__":
    main()
