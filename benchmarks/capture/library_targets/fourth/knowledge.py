"""Steps of pykeen: embeddings of a graph of knowledge, their losses, negative samples and ranks."""

import torch


def graph():
    from pykeen.triples import TriplesFactory

    torch.manual_seed(0)
    triples = torch.stack(
        [torch.randint(0, 20, (80,)), torch.randint(0, 4, (80,)), torch.randint(0, 20, (80,))], 1
    ).unique(dim=0)
    return TriplesFactory(
        mapped_triples=triples,
        entity_to_id={str(i): i for i in range(20)},
        relation_to_id={str(i): i for i in range(4)},
        create_inverse_triples=False,
    )


def sampled(name, loss="MarginRankingLoss", sampler="BasicNegativeSampler", regularizer=None, **options):
    """A training step with negatives, as the loop of pykeen makes it."""

    def build(device):
        from pykeen import losses, models, sampling

        factory = graph()
        model = getattr(models, name)(
            triples_factory=factory, embedding_dim=8, loss=getattr(losses, loss)(), random_seed=0, **options
        ).to(device)
        negatives = getattr(sampling, sampler)(
            mapped_triples=factory.mapped_triples,
            num_negs_per_pos=3,
            **({"filtered": True} if sampler == "BernoulliNegativeSampler" else {}),
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(positives):
            wrong, mask = negatives.sample(positives)
            positives, wrong, mask = positives.to(device), wrong.to(device), None if mask is None else mask.to(device)
            scores = model.score_hrt(positives)
            others = model.score_hrt(wrong.view(-1, 3)).view(*wrong.shape[:-1])
            loss = model.loss.process_slcwa_scores(
                scores, others, label_smoothing=None, batch_filter=mask, num_entities=20
            )
            loss = loss + model.collect_regularization_term()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.post_parameter_update()
            return loss.detach()

        return step, (factory.mapped_triples[:16],)

    return build


translated_training = sampled("TransE")
rotated_training = sampled("RotatE", loss="NSSALoss")
complex_training = sampled("ComplEx", loss="SoftplusLoss", sampler="BernoulliNegativeSampler")
hyperplanes_training = sampled("TransH", loss="InfoNCELoss")
relations_training = sampled("TransR", loss="PairwiseLogisticLoss", relation_dim=6)


def convolved_training(device):
    """All entities scored at once, against labels of all."""
    from pykeen import losses
    from pykeen.models import ConvE

    factory = graph()
    from pykeen.triples import TriplesFactory

    inverse = TriplesFactory(
        mapped_triples=factory.mapped_triples,
        entity_to_id=factory.entity_to_id,
        relation_to_id=factory.relation_to_id,
        create_inverse_triples=True,
    )
    model = ConvE(
        triples_factory=inverse,
        embedding_dim=16,
        output_channels=4,
        embedding_height=4,
        embedding_width=4,
        loss=losses.BCEAfterSigmoidLoss(),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(pairs, labels):
        scores = model.score_t(pairs)
        loss = model.loss.process_lcwa_scores(scores, labels, label_smoothing=0.1, num_entities=20)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    pairs = inverse.mapped_triples[:8, :2].to(device)
    return step, (pairs, (torch.rand(8, 20, device=device) > 0.9).float())


def messages_training(device):
    """A convolution over relations."""
    from pykeen import losses
    from pykeen.models import RGCN

    factory = graph()
    model = RGCN(triples_factory=factory, embedding_dim=8, num_layers=1, loss=losses.MarginRankingLoss()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(positives):
        loss = torch.nn.functional.softplus(-model.score_hrt(positives)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.post_parameter_update()
        return loss.detach()

    return step, (factory.mapped_triples[:16].to(device),)


def ranked(device):
    """Ranks the true tails among all entities, without the other known tails."""
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.evaluation.evaluator import create_sparse_positive_filter_, filter_scores_
    from pykeen.models import DistMult

    factory = graph()
    model = DistMult(triples_factory=factory, embedding_dim=8).to(device)
    known = factory.mapped_triples.to(device)

    @torch.no_grad()
    def step(batch):
        evaluator = RankBasedEvaluator()
        scores = model.predict_t(batch[:, :2])
        true = scores[torch.arange(len(batch), device=scores.device), batch[:, 2]].unsqueeze(-1)
        positive, _ = create_sparse_positive_filter_(batch, known, filter_col=2)
        filtered = filter_scores_(scores, positive)
        evaluator.process_scores_(hrt_batch=batch, target="tail", scores=filtered, true_scores=true)
        return evaluator.finalize()

    return step, (known[:8],)


def whole_evaluation(device):
    """The evaluator itself, over all triples."""
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import TransE

    factory = graph()
    model = TransE(triples_factory=factory, embedding_dim=8).to(device)

    def step():
        evaluator = RankBasedEvaluator()
        return evaluator.evaluate(
            model=model,
            mapped_triples=factory.mapped_triples[:8],
            additional_filter_triples=factory.mapped_triples,
            batch_size=4,
            use_tqdm=False,
        )

    return step, ()


def fitted_loop(device):
    """An epoch of the training loop."""
    from pykeen.models import TransE
    from pykeen.training import SLCWATrainingLoop

    factory = graph()
    model = TransE(triples_factory=factory, embedding_dim=8).to(device)
    loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=torch.optim.Adam(model.parameters()))

    def step():
        return loop.train(
            triples_factory=factory, num_epochs=1, batch_size=32, use_tqdm=False, use_tqdm_batch=False, pin_memory=False
        )

    return step, ()
