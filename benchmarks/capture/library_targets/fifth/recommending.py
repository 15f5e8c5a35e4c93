"""Steps of deepctr_torch: click models of sparse, dense and sequence features; fitting and predicting."""

import torch


def columns(sequence=False):
    from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat

    found = [SparseFeat("user", 10, embedding_dim=4), SparseFeat("item", 12, embedding_dim=4), DenseFeat("age", 1)]
    if sequence:
        found += [
            VarLenSparseFeat(
                SparseFeat("hist_item", 12, embedding_dim=4, embedding_name="item"), 5, length_name="length"
            )
        ]
    return found


def rows(where, sequence=False):
    made = [torch.randint(0, 10, (16, 1)), torch.randint(1, 12, (16, 1)), torch.rand(16, 1)]
    if sequence:
        length = torch.randint(1, 6, (16, 1))
        history = torch.randint(1, 12, (16, 5)) * (torch.arange(5)[None] < length)
        made += [history, length]
    return torch.cat([part.float() for part in made], 1).to(where), torch.randint(0, 2, (16, 1)).float().to(where)


def clicked(name, both=True, sequence=False, **options):
    def build(device):
        from deepctr_torch import models

        wide = columns(sequence)
        kw = {"device": str(device), **({} if name == "MMOE" else {"task": "binary"}), **options}
        if name in ("DIN", "DIEN"):
            model = getattr(models, name)(wide, ["item"], **kw)
        elif name in ("PNN",) or not both:
            model = getattr(models, name)(wide, **kw)
        else:
            model = getattr(models, name)(wide, wide, **kw)
        model = model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(x, y):
            out = model(x)
            loss = (
                torch.nn.functional.binary_cross_entropy(out, y.expand_as(out))
                + model.get_regularization_loss().sum()
                + model.aux_loss.sum()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, rows(device, sequence)

    return build


factorised_training = clicked("DeepFM", dnn_hidden_units=(16,), dnn_use_bn=True, dnn_dropout=0.1)
crossed_training = clicked("DCNMix", cross_num=2, low_rank=4, num_experts=2, dnn_hidden_units=(16,))
compressed_interaction_training = clicked("xDeepFM", dnn_hidden_units=(16,), cin_layer_size=(8, 8))
attentive_interaction_training = clicked("AutoInt", att_layer_num=1, att_head_num=2, dnn_hidden_units=(16,))
interest_training = clicked(
    "DIN", sequence=True, dnn_hidden_units=(16,), att_hidden_size=(8,), att_weight_normalization=True
)
evolving_interest_training = clicked(
    "DIEN", sequence=True, dnn_hidden_units=(16,), att_hidden_units=(8,), gru_type="AUGRU"
)
product_training = clicked("PNN", use_inner=True, use_outter=True, dnn_hidden_units=(16,))
pooled_sequence_training = clicked("WDL", sequence=True, dnn_hidden_units=(16,))
experts_training = clicked(
    "MMOE",
    both=False,
    num_experts=2,
    expert_dnn_hidden_units=(8,),
    gate_dnn_hidden_units=(4,),
    tower_dnn_hidden_units=(4,),
)
logarithmic_training = clicked("AFN", ltl_hidden_size=8, afn_dnn_hidden_units=(16,))


def fitted_clicks(device):
    """An epoch of fit, with metrics; predict."""
    import numpy
    from deepctr_torch.inputs import get_feature_names
    from deepctr_torch.models import DCN

    model = DCN(columns(), columns(), dnn_hidden_units=(16,), device=str(device)).to(device)
    model.compile("adam", "binary_crossentropy", metrics=["binary_crossentropy", "acc"])
    x, _y = rows("cpu")
    inputs = {name: x[:, at].numpy() for at, name in enumerate(get_feature_names(columns()))}
    target = (numpy.arange(16) % 2).astype("float32")

    def step():
        model.fit(inputs, target, batch_size=8, epochs=1, verbose=0)
        return model.predict(inputs, 8)

    return step, ()
