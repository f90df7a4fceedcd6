"""A small classifier whose loss is a mean over many cells, so small that float16 needs its scale."""

import torch
from torch import nn

torch.manual_seed(3)
features = torch.randn(512, 12)
labels = (features[:, :4].sum(1) + features[:, 4] * features[:, 5] > 0).long()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=3e5, momentum=0.5)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    for start in range(0, 512, 32):
        optimizer.zero_grad()
        batch = slice(start, start + 32)
        loss = criterion(model(features[batch]), labels[batch]) / 1e6
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        optimizer.step()
    print(f"epoch {epoch} loss: {loss.item() * 1e6:.6f}")
