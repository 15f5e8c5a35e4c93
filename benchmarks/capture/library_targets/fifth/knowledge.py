"""Steps of torchkge: embeddings of knowledge graphs, negative samples, evaluation, inference."""

import torch


def graph():
    import pandas
    from torchkge import KnowledgeGraph

    generator = torch.Generator().manual_seed(0)
    rows = torch.stack(
        [
            torch.randint(0, 8, (40,), generator=generator),
            torch.randint(0, 8, (40,), generator=generator),
            torch.randint(0, 3, (40,), generator=generator),
        ],
        1,
    )
    rows[:8, 0] = torch.arange(8)
    return KnowledgeGraph(pandas.DataFrame(rows.tolist(), columns=["from", "to", "rel"]).drop_duplicates())


def embedded(name, *options, loss="MarginLoss", sampler="BernoulliNegativeSampler", **more):
    def build(device):
        from torchkge import models, sampling
        from torchkge.utils import losses

        kg = graph()
        model = getattr(models, name)(*options, kg.n_ent, kg.n_rel, **more).to(device)
        criterion = losses.MarginLoss(0.5) if loss == "MarginLoss" else getattr(losses, loss)()
        criterion = criterion.to(device)
        negatives = getattr(sampling, sampler)(kg)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(h, t, r):
            n_h, n_t = negatives.corrupt_batch(h, t, r)[:2]
            positive, negative = model(h, t, r, n_h, n_t)
            found = criterion(positive, negative)
            optimizer.zero_grad()
            found.backward()
            optimizer.step()
            model.normalize_parameters()
            return found.detach()

        return step, (kg.head_idx.to(device), kg.tail_idx.to(device), kg.relations.to(device))

    return build


translated_training = embedded("TransEModel", 16, dissimilarity_type="L1")
hyperplanes_training = embedded("TransHModel", 16, sampler="UniformNegativeSampler")
projected_training = embedded("TransRModel", 16, 8)
dynamic_mapping_training = embedded("TransDModel", 16, 8, loss="LogisticLoss")
torus_training = embedded("TorusEModel", 16, dissimilarity_type="torus_L2")
bilinear_training = embedded("DistMultModel", 16, loss="BinaryCrossEntropyLoss")
complex_training = embedded("ComplExModel", 16, sampler="UniformNegativeSampler", loss="LogisticLoss")
holographic_training = embedded("HolEModel", 16)
analogy_training = embedded("AnalogyModel", 16)
rescal_training = embedded("RESCALModel", 8)
convolved_triples_training = embedded("ConvKBModel", 16, 4)


def ranked_links(device):
    from torchkge.evaluation import LinkPredictionEvaluator
    from torchkge.models import ComplExModel

    kg = graph()
    evaluator = LinkPredictionEvaluator(ComplExModel(16, kg.n_ent, kg.n_rel).to(device), kg)

    def step():
        evaluator.evaluate(b_size=16, verbose=False)
        return evaluator.mrr(), evaluator.hit_at_k(3), evaluator.mean_rank()

    return step, ()


def ranked_relations(device):
    from torchkge.evaluation import RelationPredictionEvaluator
    from torchkge.models import TransEModel

    kg = graph()
    evaluator = RelationPredictionEvaluator(TransEModel(16, kg.n_ent, kg.n_rel).to(device), kg, directed=True)

    def step():
        evaluator.evaluate(b_size=16, verbose=False)
        return evaluator.mrr(), evaluator.hit_at_k(1)

    return step, ()
