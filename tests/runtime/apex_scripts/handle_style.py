"""The interface before amp.initialize: a handle, a wrapped optimizer, functions named for a type."""
import torch
from apex import amp

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


@amp.half_function
def mix(x, weight):
    assert x.dtype == weight.dtype
    return x.matmul(weight)


amp.register_float_function(torch, "sigmoid")
amp_handle = amp.init(enabled=True)
x = torch.randn(32, 8, device=device)
target = (x.sum(dim=1, keepdim=True) > 0).float()
weight = torch.nn.Parameter(torch.randn(8, 1, device=device) * 0.1)
optimizer = amp_handle.wrap_optimizer(torch.optim.SGD([weight], lr=0.5), num_loss=1)
criterion = torch.nn.BCELoss()
losses = []
for _ in range(20):
    optimizer.zero_grad()
    output = torch.sigmoid(mix(x, weight))
    loss = criterion(output, target)
    with optimizer.scale_loss(loss) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("types", str(mix(x, weight).dtype), str(output.dtype))
print("loss", losses[0], losses[-1])
