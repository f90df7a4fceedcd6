"""A small GAN: two models, two optimizers, three backwards in each iteration."""

import torch
from torch import nn

torch.manual_seed(5)
real = torch.randn(256, 2) * 0.3 + torch.tensor([1.0, -1.0])
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for iteration in range(60):
    batch = real[torch.randint(0, 256, (32,))]
    optimizer_d.zero_grad()
    loss_real = criterion(critic(batch), torch.ones(32, 1))
    loss_real.backward()
    fake = generator(torch.randn(32, 4))
    loss_fake = criterion(critic(fake.detach()), torch.zeros(32, 1))
    loss_fake.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = criterion(critic(fake), torch.ones(32, 1))
    loss_g.backward()
    optimizer_g.step()
    if iteration % 10 == 0:
        print(f"iteration {iteration} loss D: {loss_real.item() + loss_fake.item():.4f} loss G: {loss_g.item():.4f}")
