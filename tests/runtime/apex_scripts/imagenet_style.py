"""Training with amp.initialize, options from argparse, clipping, a checkpoint, and a resume from it."""
import argparse

import torch
import torch.nn as nn
from apex import amp
from apex.parallel import convert_syncbn_model

parser = argparse.ArgumentParser()
parser.add_argument("--opt-level", type=str)
parser.add_argument("--keep-batchnorm-fp32", type=str, default=None)
parser.add_argument("--loss-scale", type=str, default=None)
parser.add_argument("--checkpoint", type=str)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
images = torch.randn(16, 3, 8, 8, device=device)
labels = torch.randint(0, 4, (16,), device=device)


def build():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )
    model = convert_syncbn_model(model).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    return amp.initialize(
        model,
        optimizer,
        opt_level=args.opt_level,
        keep_batchnorm_fp32=args.keep_batchnorm_fp32,
        loss_scale=args.loss_scale,
    )


def train(model, optimizer, steps):
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(steps):
        output = model(images)
        loss = criterion(output, labels)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


model, optimizer = build()
losses = train(model, optimizer, 40)
torch.save(
    {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, args.checkpoint
)
losses += train(model, optimizer, 1)

model, optimizer = build()
checkpoint = torch.load(args.checkpoint)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
amp.load_state_dict(checkpoint["amp"])
resumed = train(model, optimizer, 1)
print("resumed", abs(resumed[0] - losses[-1]) < 1e-3)
print("loss", losses[0], losses[-1])
