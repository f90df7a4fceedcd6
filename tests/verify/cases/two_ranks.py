"""DistributedDataParallel on as many ranks as torchrun starts, each on its own part of the data."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(2)
inputs = torch.randn(64, 10)
targets = inputs.abs().sum(1, keepdim=True)
own = slice(dist.get_rank(), None, dist.get_world_size())
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs[own]), targets[own])
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step} loss: {loss.item():.5f}")
dist.destroy_process_group()
