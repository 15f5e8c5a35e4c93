"""Steps of dhg: models on graphs and hypergraphs, message passing, structures made from features, metrics."""

import torch
from torch import nn

EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 5)]
HYPEREDGES = [(0, 1, 2), (2, 3), (3, 4, 5, 6), (6, 7), (0, 7), (1, 4)]


def convolved(name, *options, hyper=False, **more):
    def build(device):
        import dhg
        from dhg import models

        graph = dhg.Hypergraph(8, HYPEREDGES) if hyper else dhg.Graph(8, EDGES)
        model = getattr(models, name)(6, 8, 3, *options, **more)
        model(torch.rand(8, 6), graph)  # the graph makes its matrices on the host
        graph, model = graph.to(device), model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(x, y):
            loss = nn.functional.cross_entropy(model(x, graph), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.rand(8, 6, device=device), torch.randint(0, 3, (8,), device=device))

    return build


graph_convolution_training = convolved("GCN", use_bn=True)
graph_attention_training = convolved("GAT", 2)
graph_sample_training = convolved("GraphSAGE", aggr="mean")
graph_isomorphism_training = convolved("GIN", 2, train_eps=True)
hypergraph_training = convolved("HGNN", hyper=True)
hypergraph_plus_training = convolved("HGNNP", hyper=True, use_bn=True)
fast_hypergraph_training = convolved("HyperGCN", hyper=True, use_mediator=True)
hyperedge_neurons_training = convolved("HNHN", hyper=True)
unified_attention_training = convolved("UniGAT", 2, hyper=True)


def passed_messages(device):
    """Messages between vertices and hyperedges, with weights; a graph of cliques; random connections dropped."""
    import dhg

    made = dhg.Hypergraph(8, HYPEREDGES)
    clique = dhg.Graph.from_hypergraph_clique(made)
    x = torch.rand(8, 6)
    (
        made.v2v(x),
        made.smoothing_with_HGNN(x),
        made.v2e(x, aggr="sum"),
        clique.smoothing_with_GCN(x),
        clique.v2v(x),
        clique.D_v,
        clique.L_sym,
    )
    made, clique = made.to(device), clique.to(device)

    def step(x):
        edges = made.v2e(x, aggr="mean", drop_rate=0.2)
        back = made.e2v(edges, aggr="sum")
        smooth = made.smoothing_with_HGNN(back, drop_rate=0.1) + clique.smoothing_with_GCN(x, drop_rate=0.1)
        return smooth, made.v2v(x, aggr="mean"), clique.v2v(x, aggr="sum"), clique.smoothing(x, clique.L_sym, 0.5)

    return step, (torch.rand(8, 6, device=device),)


def ranked_scores(device):
    from dhg.metrics import UserItemRecommenderEvaluator, VertexClassificationEvaluator

    classes = VertexClassificationEvaluator(
        ["accuracy", "f1_score", {"f1_score": {"average": "micro"}}, "confusion_matrix"], 0
    )
    ranks = UserItemRecommenderEvaluator([{"ndcg": {"k": 3}}, {"recall": {"k": 3}}, {"precision": {"k": 2}}], 0)

    def step(labels, scores, true, liked):
        return classes.validate(labels, scores), ranks.validate(liked, true)

    return step, (
        torch.randint(0, 3, (12,), device=device),
        torch.rand(12, 3, device=device),
        torch.rand(4, 6, device=device),
        (torch.rand(4, 6, device=device) > 0.5).float(),
    )
