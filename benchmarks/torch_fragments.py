"""PyTorch files of the benchmark's tree: models, readers, and training scripts in three manners."""

from __future__ import annotations

MODEL = """import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ${Noun}Block(nn.Module):
    def __init__(self, width, dropout=0.1):
        super(${Noun}Block, self).__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.outer(F.gelu(self.inner(self.norm(x)))))


class ${Noun}Net(nn.Module):
    def __init__(self, inputs=$number, width=128, depth=4, classes=10):
        super(${Noun}Net, self).__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList([${Noun}Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, classes)
        self.reset_parameters()

    def reset_parameters(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = 1.0 / math.sqrt(module.in_features)
                nn.init.uniform_(module.weight, -bound, bound)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def load_pretrained(path, device="cpu"):
    net = ${Noun}Net()
    net.load_state_dict(torch.load(path, map_location=device))
    net.eval()
    return net
"""

READER = """import os
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class ${Noun}Dataset(Dataset):
    def __init__(self, root, split="train", size=$number):
        self.root = root
        self.split = split
        self.names = sorted(os.listdir(os.path.join(root, split)))[:size]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        row = np.load(os.path.join(self.root, self.split, self.names[index]))
        if self.split == "train" and random.random() < 0.5:
            row = row[::-1].copy()
        return torch.from_numpy(row[:-1]).float(), torch.tensor(int(row[-1]))


def get_loader(root, split, batch_size, workers=2):
    return DataLoader(${Noun}Dataset(root, split), batch_size=batch_size, shuffle=split == "train", num_workers=workers)
"""

TRAIN_FUNCTIONS = """import argparse
import os

import torch
import torch.nn as nn
import torch.optim as optim

from .data import get_loader
from .model import ${Noun}Net
$filler

def train(args, model, device, loader, optimizer, criterion, epoch):
    model.train()
    for step, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        if step % args.log_interval == 0:
            print("epoch %d step %d loss %.4f" % (epoch, step, loss.item()))


def evaluate(model, device, loader):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data.to(device))
            correct += (output.argmax(1).cpu() == target).sum().item()
            total += len(target)
    return correct / max(total, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=$number)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--log-interval", type=int, default=50)
    parser.add_argument("--out", default="$noun.pt")
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ${Noun}Net().to(device)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    criterion = nn.CrossEntropyLoss()
    best = 0.0
    for epoch in range(args.epochs):
        train(args, model, device, get_loader(args.root, "train", args.batch_size), optimizer, criterion, epoch)
        scheduler.step()
        accuracy = evaluate(model, device, get_loader(args.root, "valid", args.batch_size))
        if accuracy > best:
            best = accuracy
            torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, args.out)


if __name__ == "__main__":
    main()
"""

TRAIN_CLASS = """import torch
import torch.nn as nn

from .data import get_loader
from .model import ${Noun}Net
$filler

class ${Noun}Trainer(object):
    def __init__(self, root, lr=1e-3, batch_size=$number, device="cuda"):
        self.device = torch.device(device)
        self.model = ${Noun}Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()
        self.loader = get_loader(root, "train", batch_size)
        self.history = []

    def run_epoch(self):
        self.model.train()
        running = 0.0
        for inputs, labels in self.loader:
            inputs, labels = inputs.to(self.device), labels.to(self.device)
            loss = self.criterion(self.model(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            running += loss.item()
        self.history.append(running / max(len(self.loader), 1))

    def fit(self, epochs):
        for _ in range(epochs):
            self.run_epoch()
        return self.history


if __name__ == "__main__":
    trainer = ${Noun}Trainer("data/$plural")
    print(trainer.fit(10))
"""

TRAIN_MODULE = """import torch
import torch.nn as nn
import torch.optim as optim

from .data import get_loader
from .model import ${Noun}Net
$filler
EPOCHS = 10
ACCUMULATE = 4

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
net = ${Noun}Net()
net.to(device)
optimizer = optim.AdamW(net.parameters(), lr=3e-4, weight_decay=0.01)
criterion = nn.CrossEntropyLoss()
loader = get_loader("data/$plural", "train", $number)

for epoch in range(EPOCHS):
    net.train()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(net(x.to(device)), y.to(device)) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
    print("epoch", epoch, "loss", loss.item())
"""

TRAINING_SCRIPTS = (TRAIN_FUNCTIONS, TRAIN_CLASS, TRAIN_MODULE)
