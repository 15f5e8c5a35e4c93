"""Steps of torch_struct: distributions over sequences, segments, trees and alignments."""

import torch


def structured(name, shape, lengths=None, parts=("partition", "marginals", "argmax", "entropy"), **options):
    def build(device):
        import torch_struct

        ask = [torch.tensor(lengths, device=device)] if lengths else []

        def step(potentials):
            potentials = potentials.detach().requires_grad_()
            made = getattr(torch_struct, name)(potentials, **({"lengths": ask[0]} if ask else {}), **options)
            found = {}
            for part in parts:
                if part == "sample":
                    found[part] = made.sample((2,))
                elif part == "log_prob":
                    found[part] = made.log_prob(made.argmax)
                elif part == "topk":
                    found[part] = made.topk(2)
                else:
                    found[part] = getattr(made, part)
            found["partition"].sum().backward()
            return {key: value.detach() for key, value in found.items()}, potentials.grad

        return step, (torch.rand(shape, device=device),)

    return build


chain_structure = structured(
    "LinearChainCRF",
    (2, 5, 3, 3),
    lengths=[6, 4],
    parts=("partition", "marginals", "argmax", "log_prob", "entropy", "sample", "topk", "max"),
)
segments_structure = structured("SemiMarkovCRF", (2, 5, 3, 3, 3), lengths=[6, 5])
projective_structure = structured(
    "DependencyCRF", (2, 5, 5), lengths=[5, 3], parts=("partition", "marginals", "argmax", "sample")
)
free_structure = structured("NonProjectiveDependencyCRF", (2, 5, 5), parts=("partition", "marginals"))
tree_structure = structured("TreeCRF", (2, 4, 4, 3), lengths=[4, 3], parts=("partition", "marginals", "argmax"))


def grammar_structure(device):
    import torch_struct

    def step(terms, rules, roots):
        made = torch_struct.SentCFG(
            (terms.log_softmax(-1), rules.log_softmax(-1), roots.log_softmax(-1)),
            lengths=torch.tensor([4, 3], device=terms.device),
        )
        return made.partition.detach(), made.argmax

    return step, (
        torch.rand(2, 4, 3, device=device),
        torch.rand(2, 2, 5, 5, device=device),
        torch.rand(2, 2, device=device),
    )


def hidden_structure(device):
    import torch_struct

    def step(transition, emission, start, observed):
        made = torch_struct.HMM(transition.log_softmax(0), emission.log_softmax(0), start.log_softmax(0), observed)
        return made.partition, made.argmax

    return step, (
        torch.rand(3, 3, device=device),
        torch.rand(4, 3, device=device),
        torch.rand(3, device=device),
        torch.randint(0, 4, (2, 5), device=device),
    )
