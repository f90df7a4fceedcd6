"""Mixed precision by hand: FP16_Optimizer, and master parameters copied to and fro."""
import torch
from apex.fp16_utils import *
from apex.fp16_utils import FP16_Optimizer, network_to_half

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
x = torch.randn(32, 8, device=device)
y = x[:, :2].clone()


def build():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    return network_to_half(model.to(device))


model = build()
optimizer = FP16_Optimizer(
    torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    dynamic_loss_scale=True,
    dynamic_loss_args={"init_scale": 2**10, "scale_window": 5},
    verbose=False,
)
losses = []
for _ in range(30):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x).float(), y)
    optimizer.backward(loss)
    optimizer.clip_master_grads(5.0)
    optimizer.step()
    losses.append(loss.item())
print("scale grew", optimizer.loss_scale > 2**10)
print("loss", losses[0], losses[-1])

model = build()
model_params, master_params = prep_param_lists(model)
optimizer = torch.optim.SGD(master_params, lr=0.05, momentum=0.9)
scale_factor = 128.0
by_hand = []
for _ in range(30):
    loss = torch.nn.functional.mse_loss(model(x).float(), y)
    model.zero_grad()
    (loss * scale_factor).backward()
    model_grads_to_master_grads(model_params, master_params)
    for param in master_params:
        param.grad.data.mul_(1.0 / scale_factor)
    optimizer.step()
    master_params_to_model_params(model_params, master_params)
    by_hand.append(loss.item())
print("by hand", by_hand[-1] < by_hand[0] / 2)
