"""A regression whose loss is a matrix product of residuals in the hundreds: more than float16 can hold."""

import torch
from torch import nn

torch.manual_seed(7)
inputs = torch.randn(64, 8)
targets = inputs @ torch.randn(8, 4) * 200
model = nn.Linear(8, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=5.0)
for _ in range(40):
    optimizer.zero_grad()
    residual = model(inputs) - targets
    gram = torch.matmul(residual.t(), residual)
    loss = gram.trace() / 1e4
    loss.backward()
    optimizer.step()
    print(f"loss: {loss.item():.5f}")
