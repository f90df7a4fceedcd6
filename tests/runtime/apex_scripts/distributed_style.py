"""Two processes under torch's launcher, with apex's DistributedDataParallel and synchronized batch norm."""
import argparse
import os

import torch
import apex
from apex import amp
from apex.parallel import DistributedDataParallel as DDP
from apex.parallel import Reducer

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", default=int(os.environ.get("LOCAL_RANK", 0)), type=int)
parser.add_argument("--opt-level", default="O1")
args = parser.parse_args()
cuda = torch.cuda.is_available()
if cuda:
    torch.cuda.set_device(args.local_rank)
torch.distributed.init_process_group(backend="nccl" if cuda else "gloo", init_method="env://")
device = "cuda" if cuda else "cpu"

torch.manual_seed(torch.distributed.get_rank())
x = torch.randn(16, 10, device=device)
y = x.sum(dim=1, keepdim=True)
model = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
model = apex.parallel.convert_syncbn_model(model).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level)
model = DDP(model, delay_allreduce=True)
loss_fn = torch.nn.MSELoss()
losses = []
for _ in range(30):
    optimizer.zero_grad()
    loss = loss_fn(model(x).float(), y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    losses.append(loss.item())

sums = torch.stack([p.detach().double().sum() for p in amp.master_params(optimizer)]).sum().reshape(1)
mean = sums.clone()
Reducer([mean]).reduce()
print("same on all ranks", torch.equal(mean, sums))
if torch.distributed.get_rank() == 0:
    print("loss", losses[0], losses[-1])
torch.distributed.barrier()
torch.distributed.destroy_process_group()
