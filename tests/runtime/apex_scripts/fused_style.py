"""Fused layers and optimizers, LARC around one of torch's, and the applier called by hand."""
import torch
from apex import amp
from apex.mlp import MLP
from apex.multi_tensor_apply import multi_tensor_applier
from apex.normalization import FusedLayerNorm
from apex.optimizers import FusedAdam
from apex.parallel.LARC import LARC

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
x = torch.randn(32, 8, device=device)
y = x.abs()


def train(make_optimizer):
    model = torch.nn.Sequential(MLP([8, 32]), FusedLayerNorm(32), torch.nn.Linear(32, 8)).to(device)
    optimizer = make_optimizer(model.parameters())
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x).float(), y)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


losses = train(lambda parameters: FusedAdam(parameters, lr=0.01))
larc = train(lambda parameters: LARC(torch.optim.SGD(parameters, lr=0.1, momentum=0.9), trust_coefficient=0.1))
print("larc", larc[-1] < larc[0])

if multi_tensor_applier.available:
    from apex import amp_C

    overflow_buf = torch.zeros(1, dtype=torch.int, device=device)
    outputs = [torch.empty_like(x)]
    multi_tensor_applier(amp_C.multi_tensor_scale, overflow_buf, [[x], outputs], 0.5)
    print("applied", torch.equal(outputs[0], x * 0.5), overflow_buf.item())
print("loss", losses[0], losses[-1])
