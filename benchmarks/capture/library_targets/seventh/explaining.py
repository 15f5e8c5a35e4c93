"""Steps of torchcam, ltn, bayesian_torch and brevitas: what networks saw, what they obey, doubt and round."""

import torch
from torch import nn
from torch.nn import functional


def seeing(on):
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(12, 5),
        )
        .to(on)
        .eval()
    )


def activation_map(name, **options):
    """The class that the network chose, and where it saw it."""

    def build(device):
        from torchcam import methods

        model = seeing(device)
        kind = getattr(methods, name)

        def step(image):
            with kind(model, input_shape=(3, 16, 16), **options) as extractor:
                out = model(image)
                return extractor(out.squeeze(0).argmax().item(), out)

        return step, (torch.rand(1, 3, 16, 16, device=device),)

    return build


saliency_layer = activation_map("LayerCAM")
saliency_gradient = activation_map("GradCAM", target_layer="3")
saliency_score = activation_map("ScoreCAM", target_layer="3", batch_size=4)
saliency_smooth = activation_map("SmoothGradCAMpp", target_layer="3", num_samples=3)


def saliency_batch(device):
    """Images of which each has a class of its own."""
    from torchcam.methods import GradCAMpp

    model = seeing(device)

    def step(images):
        with GradCAMpp(model, target_layer="3", input_shape=(3, 16, 16)) as extractor:
            out = model(images)
            return extractor(out.argmax(-1).tolist(), out)

    return step, (torch.rand(3, 3, 16, 16, device=device),)


def saliency_metric(device):
    from functools import partial

    from torchcam.methods import LayerCAM
    from torchcam.metrics import ClassificationMetric

    extractor = LayerCAM(seeing(device), target_layer="3", input_shape=(3, 16, 16))
    metric = ClassificationMetric(extractor, partial(torch.softmax, dim=-1))

    def step(images):
        metric.update(images)
        return metric.summary()

    return step, (torch.rand(3, 3, 16, 16, device=device),)


class Truth(nn.Module):
    """How true it is of some things that they are of a class, or that they go together."""

    def __init__(self, size):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, 16), nn.ELU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, *things):
        return self.net(torch.cat(things, -1))


def logic_training(device):
    """Binary classification, as in the examples."""
    import ltn

    member = ltn.Predicate(Truth(2).to(device))
    negation = ltn.Connective(ltn.fuzzy_ops.NotStandard())
    every = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")
    satisfied = ltn.fuzzy_ops.SatAgg()
    optimizer = torch.optim.Adam(member.parameters(), lr=0.001)

    def step(data, labels):
        optimizer.zero_grad()
        positive = ltn.Variable("positive", data[torch.nonzero(labels)].squeeze(1))
        negative = ltn.Variable("negative", data[torch.nonzero(torch.logical_not(labels))].squeeze(1))
        loss = 1.0 - satisfied(every(positive, member(positive)), every(negative, negation(member(negative))))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, (torch.rand(20, 2, device=device), (torch.arange(20, device=device) % 2).float())


class Classes(nn.Module):
    """How true it is of things that they are of the class that a one-hot vector names."""

    def __init__(self, size, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, 16), nn.ELU(), nn.Linear(16, classes))

    def forward(self, x, label):
        return torch.sum(torch.softmax(self.net(x), 1) * label, dim=1)


def logic_classes_training(device):
    import ltn

    labels = [ltn.Constant(torch.eye(3, device=device)[i]) for i in range(3)]
    member = ltn.Predicate(Classes(4, 3).to(device))
    every = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")
    satisfied = ltn.fuzzy_ops.SatAgg()
    optimizer = torch.optim.Adam(member.parameters(), lr=0.001)

    def step(data, kinds):
        optimizer.zero_grad()
        things = [ltn.Variable(f"x_{i}", data[kinds == i]) for i in range(3)]
        agreed = satisfied(*(every(x, member(x, label)) for x, label in zip(things, labels, strict=True)))
        loss = 1.0 - agreed
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(18, 4, device=device), torch.arange(18, device=device) % 3)


def logic_relation(device):
    """Friends of smokers smoke: quantifiers, guards and connectives over pairs."""
    import ltn

    friends, smokes = ltn.Predicate(Truth(6).to(device)), ltn.Predicate(Truth(3).to(device))
    conjunction = ltn.Connective(ltn.fuzzy_ops.AndProd())
    implication = ltn.Connective(ltn.fuzzy_ops.ImpliesReichenbach())
    every = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")
    some = ltn.Quantifier(ltn.fuzzy_ops.AggregPMean(p=5), quantifier="e")

    def step(people):
        x, y = ltn.Variable("x", people), ltn.Variable("y", people)
        rule = every([x, y], implication(conjunction(friends(x, y), smokes(x)), smokes(y)))
        near = every(
            [x, y],
            friends(x, y),
            cond_vars=[x, y],
            cond_fn=lambda a, b: torch.norm(a.value - b.value, dim=1) < 0.8,
        )
        return rule.value, near.value, every(x, some(y, friends(x, y))).value

    return step, (torch.rand(6, 3, device=device),)


def logic_pairs(device):
    """Diagonal quantification: things and their labels, pair by pair."""
    import ltn

    alike = ltn.Predicate(func=lambda a, b: torch.exp(-torch.norm(a - b, dim=1)))
    every = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")
    either = ltn.Connective(ltn.fuzzy_ops.OrProbSum())

    def step(first, second):
        x, y = ltn.Variable("x", first), ltn.Variable("y", second)
        x, y = ltn.diag(x, y)
        return every([x, y], either(alike(x, y), alike(y, x))).value

    return step, (torch.rand(8, 3, device=device), torch.rand(8, 3, device=device))


PRIOR = {
    "prior_mu": 0.0,
    "prior_sigma": 1.0,
    "posterior_mu_init": 0.0,
    "posterior_rho_init": -3.0,
    "moped_enable": False,
    "moped_delta": 0.5,
}


def doubtful_training(kind, **options):
    """A network turned into one of distributions, as in the README."""

    def build(device):
        from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss

        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
        dnn_to_bnn(model, {**PRIOR, "type": kind, **options})
        model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)

        def step(x, y):
            optimizer.zero_grad()
            output = model(x)
            loss = functional.cross_entropy(output, y) + get_kl_loss(model) / len(x)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step, (torch.randn(4, 1, 8, 8, device=device), torch.randint(3, (4,), device=device))

    return build


reparameterised_training = doubtful_training("Reparameterization")
flipout_training = doubtful_training("Flipout", moped_enable=True)


def doubtful_prediction(device):
    """Samples of the network, and how sure it is."""
    from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn
    from bayesian_torch.utils.util import mutual_information, predictive_entropy

    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    dnn_to_bnn(model, {**PRIOR, "type": "Reparameterization"})
    model.to(device).eval()

    def step(x):
        with torch.no_grad():
            output = torch.stack([torch.softmax(model(x), -1) for _ in range(4)]).cpu().numpy()
        return predictive_entropy(output), mutual_information(output)

    return step, (torch.randn(5, 6, device=device),)


def doubtful_recurrent(device):
    from bayesian_torch.layers import LSTMReparameterization

    layer = LSTMReparameterization(4, 6).to(device)

    def step(x):
        hidden, _, kl = layer(x)
        return hidden.detach(), kl.detach()

    return step, (torch.randn(2, 5, 4, device=device),)


def rounded(**options):
    import brevitas.nn as qnn

    class Rounded(nn.Module):
        """The network of the tutorial: weights and activations of few bits."""

        def __init__(self):
            super().__init__()
            self.conv = qnn.QuantConv2d(3, 6, 3, bias=True, weight_bit_width=4, **options)
            self.relu = qnn.QuantReLU(bit_width=4, return_quant_tensor=bool(options))
            self.pool = nn.AvgPool2d(2)
            self.linear = qnn.QuantLinear(6 * 9, 4, bias=True, weight_bit_width=4)

        def forward(self, x):
            x = self.relu(self.conv(x))
            x = x.value if hasattr(x, "value") else x
            return self.linear(self.pool(x).flatten(1))

    return Rounded()


def rounded_training(device):
    model = rounded().to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step(x, y):
        model.train()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 3, 8, 8, device=device), torch.randint(4, (4,), device=device))


def rounded_inference(device):
    """Biases of the scale of what comes in, as tensors that know how they were rounded."""
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFloat, Int32Bias

    model = nn.Sequential(
        qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, return_quant_tensor=True),
        qnn.QuantLinear(6, 8, bias=True, weight_bit_width=8, bias_quant=Int32Bias, return_quant_tensor=True),
        qnn.QuantReLU(bit_width=8, return_quant_tensor=True),
        qnn.QuantLinear(8, 3, bias=True, weight_bit_width=8, bias_quant=Int32Bias),
    ).to(device)
    model(torch.randn(8, 6, device=device))
    model.eval()

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(8, 6, device=device),)


def rounded_calibration(device):
    """Ranges of activations found on some data, then biases put right."""
    from brevitas.graph.calibrate import bias_correction_mode, calibration_mode

    model = rounded().to(device).eval()

    def step(x):
        with torch.no_grad():
            with calibration_mode(model):
                model(x)
            with bias_correction_mode(model):
                model(x)
            return model(x)

    return step, (torch.randn(4, 3, 8, 8, device=device),)


def rounded_attention_training(device):
    import brevitas.nn as qnn

    model = qnn.QuantMultiheadAttention(8, 2, batch_first=True, packed_in_proj=False).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(x):
        optimizer.zero_grad()
        out, _ = model(x, x, x)
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(3, 5, 8, device=device),)


def rounded_recurrent(device):
    import brevitas.nn as qnn

    model = qnn.QuantLSTM(4, 6, batch_first=True).to(device)
    model(torch.randn(2, 5, 4, device=device))
    model.eval()

    def step(x):
        with torch.no_grad():
            return model(x)[0]

    return step, (torch.randn(2, 5, 4, device=device),)


def rounded_weights(device):
    """Whole numbers for export."""
    import brevitas.nn as qnn

    layer = qnn.QuantLinear(6, 8, bias=False, weight_bit_width=4).to(device)

    def step(x):
        with torch.no_grad():
            weight = layer.quant_weight()
            return weight.int(), weight.scale, layer(x)

    return step, (torch.randn(3, 6, device=device),)
