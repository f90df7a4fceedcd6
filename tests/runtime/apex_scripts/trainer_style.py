"""The form that tutorials carried over from another framework: init, init_trainer, autograd.backward."""
import torch
from apex import amp
from torch import autograd

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
amp.init()
net = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)).to(device)
trainer = torch.optim.SGD(net.parameters(), lr=0.1)
amp.init_trainer(trainer)
data = torch.randn(32, 6, device=device)
label = data[:, :1] * data[:, 1:2]
loss_fn = torch.nn.MSELoss()
losses = []
for _ in range(40):
    trainer.zero_grad()
    loss = loss_fn(net(data).float(), label)
    with amp.scale_loss(loss, trainer) as scaled_loss:
        autograd.backward(scaled_loss)
    trainer.step()
    losses.append(loss.item())
print("loss", losses[0], losses[-1])
