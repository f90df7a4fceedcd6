"""Two models, two optimizers, three losses with scales of their own; BCELoss's logits form; gradients accumulated."""
import torch
import torch.nn as nn
from apex import amp

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
real = torch.randn(32, 6, device=device) + 2.0
netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6)).to(device)
netD = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=0.01)
optimizerG = torch.optim.Adam(netG.parameters(), lr=0.01)
[netD, netG], [optimizerD, optimizerG] = amp.initialize(
    [netD, netG], [optimizerD, optimizerG], opt_level="O1", num_losses=3
)
criterion = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, device=device), torch.zeros(32, device=device)
distances = []
for step in range(60):
    netD.zero_grad()
    errD_real = criterion(netD(real).view(-1), ones)
    with amp.scale_loss(errD_real, optimizerD, loss_id=0) as errD_real_scaled:
        errD_real_scaled.backward()
    fake = netG(torch.randn(32, 4, device=device))
    errD_fake = criterion(netD(fake.detach()).view(-1), zeros)
    with amp.scale_loss(errD_fake, optimizerD, loss_id=1) as errD_fake_scaled:
        errD_fake_scaled.backward()
    optimizerD.step()

    netG.zero_grad()
    errG = criterion(netD(fake).view(-1), ones)
    with amp.scale_loss(errG, optimizerG, loss_id=2) as errG_scaled:
        errG_scaled.backward()
    optimizerG.step()
    distances.append((fake.float().mean() - 2.0).abs().item())

iters_to_accumulate = 4
for i in range(iters_to_accumulate):
    loss = criterion(netD(real).view(-1), ones) / iters_to_accumulate
    if (i + 1) % iters_to_accumulate == 0:
        with amp.scale_loss(loss, optimizerD) as scaled_loss:
            scaled_loss.backward()
        optimizerD.step()
        optimizerD.zero_grad()
    else:
        with amp.scale_loss(loss, optimizerD, delay_unscale=True) as scaled_loss:
            scaled_loss.backward()
print("scales", *sorted(amp.state_dict()))
print("loss", distances[0], distances[-1])
