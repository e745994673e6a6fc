#!/usr/bin/env python3
"""A DataLoader with two workers; the data set of each keeps the samples that it decoded."""
import torch
from torch.utils.data import DataLoader, Dataset

import said

torch.set_num_threads(1)


class Decoded(Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 1 << 30

    def decode(self, index):
        image = torch.full((64, 64, 3), float(index))
        return (image * 2 + 1).contiguous()

    def load(self, index):
        self.cache[index] = self.decode(index).to(torch.float64)
        said.keeps(64 * 64 * 3 * 8)
        return self.cache[index]

    def __getitem__(self, index):
        if not self.cache:
            said.ready("load")
        sample = self.load(index).mean()
        said.step(0.02)
        return sample


for batch in DataLoader(Decoded(), batch_size=16, num_workers=2):
    batch.sum()
