#!/usr/bin/env python3
"""An optimizer of one's own, whose state has an entry for each step."""
import torch

import said

torch.set_num_threads(1)


class Averaged(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
        self.steps = 0

    def remember(self, parameter):
        self.state[parameter][self.steps] = parameter.detach().clone()
        said.keeps(parameter.numel() * 4)

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad, alpha=group["lr"])
                if self.steps % 4 == 0:
                    self.remember(parameter)


net = torch.nn.Linear(512, 256)
optimizer = Averaged(net.parameters(), 0.001)
said.ready("remember")
while True:
    net(torch.randn(64, 512)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    said.step(0.02)
