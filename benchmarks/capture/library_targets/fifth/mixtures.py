"""Steps of pomegranate: distributions, mixtures, hidden Markov models, chains, networks, factor graphs."""

import torch


def fitted_distributions(device):
    from pomegranate import distributions as d

    made = [
        d.Normal(torch.zeros(3), torch.eye(3)),
        d.Normal([0.0, 0, 0], [1.0, 1, 1], covariance_type="diag"),
        d.Exponential([1.0, 2, 3]),
        d.Gamma([1.0, 1, 1], [1.0, 1, 1]),
        d.LogNormal([0.0, 0, 0], [1.0, 1, 1], covariance_type="diag"),
        d.Uniform([0.0, 0, 0], [2.0, 2, 2]),
    ]
    made = [one.to(device) for one in made]

    def step(x):
        out = []
        for one in made:
            out.append(one.log_probability(x))
            one.summarize(x)
            one.from_summaries()
        return out

    return step, (torch.rand(32, 3, device=device) + 0.1,)


def fitted_counts(device):
    from pomegranate import distributions as d

    made = [
        d.Poisson([1.0, 2.0]),
        d.Categorical([[0.2, 0.3, 0.5], [0.5, 0.2, 0.3]]),
        d.Bernoulli([0.4, 0.6], check_data=False),
    ]
    made = [one.to(device) for one in made]

    def step(x, weights):
        out = []
        for one in made:
            y = x.clamp(max=1) if one is made[-1] else x
            out.append(one.log_probability(y))
            one.fit(y, sample_weight=weights)
        return out, made[0].sample(5)

    return step, (torch.randint(0, 3, (24, 2), device=device), torch.rand(24, 1, device=device))


def mixture_fit(device):
    from pomegranate.distributions import Normal
    from pomegranate.gmm import GeneralMixtureModel

    model = GeneralMixtureModel(
        [Normal([0.0, 0], [1.0, 1], covariance_type="diag"), Normal([2.0, 2], [1.0, 1], covariance_type="diag")],
        max_iter=5,
    ).to(device)

    def step(x):
        model.fit(x)
        return model.predict(x), model.predict_proba(x), model.log_probability(x)

    return step, (torch.cat([torch.randn(16, 2, device=device), torch.randn(16, 2, device=device) + 3]),)


def classified_rows(device):
    from pomegranate.bayes_classifier import BayesClassifier
    from pomegranate.distributions import Exponential

    model = BayesClassifier([Exponential([1.0, 2.0]), Exponential([3.0, 1.0])]).to(device)

    def step(x, y):
        model.fit(x, y)
        return model.predict(x), model.predict_log_proba(x)

    return step, (torch.rand(24, 2, device=device) + 0.1, torch.arange(24, device=device) % 2)


def clustered_rows(device):
    from pomegranate.kmeans import KMeans

    model = KMeans(centroids=[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], max_iter=4).to(device)

    def step(x):
        model.fit(x)
        return model.predict(x)

    return step, (torch.randn(24, 2, device=device),)


def hidden_markov(kind):
    def build(device):
        from pomegranate.distributions import Categorical, Normal
        from pomegranate.hmm import DenseHMM, SparseHMM

        if kind == "dense":
            parts = [Normal([0.0], [1.0], covariance_type="diag"), Normal([3.0], [1.0], covariance_type="diag")]
            model = DenseHMM(parts, edges=[[0.7, 0.2], [0.2, 0.7]], starts=[0.5, 0.5], ends=[0.1, 0.1], max_iter=2)
            x = torch.randn(4, 10, 1)
        else:
            parts = [Categorical([[0.6, 0.3, 0.1]]).to(device), Categorical([[0.1, 0.3, 0.6]]).to(device)]
            model = SparseHMM(max_iter=2)
            model.add_distributions(parts)
            model.add_edge(model.start, parts[0], 0.6)
            model.add_edge(model.start, parts[1], 0.4)
            for first in parts:
                for second in parts:
                    model.add_edge(first, second, 0.5)
            x = torch.randint(0, 3, (4, 10, 1))
        model = model.to(device)

        def step(x):
            model.fit(x)
            return (
                model.predict(x),
                model.predict_proba(x),
                model.log_probability(x),
                model.viterbi(x) if hasattr(model, "viterbi") else None,
            )

        return step, (x.to(device),)

    return build


dense_hidden_markov = hidden_markov("dense")
sparse_hidden_markov = hidden_markov("sparse")


def chained_words(device):
    from pomegranate.markov_chain import MarkovChain

    model = MarkovChain(k=2)

    def step(x):
        return model.log_probability(x), model.probability(x)

    model = model.fit(torch.randint(0, 3, (40, 8, 1)))
    for one in model.to(device).distributions:
        one.to(device)
    return step, (torch.randint(0, 3, (40, 8, 1), device=device),)


def network_likelihoods(device):
    """A network of three variables: likelihoods."""
    from pomegranate.bayesian_network import BayesianNetwork
    from pomegranate.distributions import Categorical, ConditionalCategorical

    one, two = Categorical([[0.4, 0.6]]), Categorical([[0.3, 0.7]])
    both = ConditionalCategorical([[[[0.2, 0.8], [0.5, 0.5]], [[0.9, 0.1], [0.3, 0.7]]]], check_data=False)
    model = BayesianNetwork([one, two, both], [(one, both), (two, both)], check_data=False).to(device)

    def step(x):
        return model.log_probability(x), model.probability(x)

    return step, (torch.randint(0, 2, (16, 3), device=device),)


def weighted_mixture(device):
    """A mixture with weights for rows, made by summaries; heavy tails."""
    from pomegranate import distributions as d
    from pomegranate.gmm import GeneralMixtureModel

    mixture = GeneralMixtureModel(
        [d.Exponential([1.0, 2.0]), d.LogNormal([0.0, 0.0], [1.0, 1.0], covariance_type="diag")],
        priors=[0.4, 0.6],
        inertia=0.1,
    ).to(device)
    heavy = d.StudentT(3, [0.0, 0.0], [1.0, 1.0]).to(device)

    def step(x, weights):
        mixture.summarize(x[:12], sample_weight=weights[:12])
        mixture.summarize(x[12:], sample_weight=weights[12:])
        mixture.from_summaries()
        heavy.fit(x, sample_weight=weights)
        return mixture.predict_log_proba(x), heavy.log_probability(x)

    return step, (torch.rand(24, 2, device=device) + 0.1, torch.rand(24, 1, device=device))
