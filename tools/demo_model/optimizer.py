"""Muon for matrices, Adam for the rest. Both keep their state in plain tensors, which checkpoints hold."""
import torch

from native import WORK


def orthogonalise(gradients):
    """Newton-Schulz iteration of Muon, for a stack of matrices at once. In WORK: what is fast here."""
    x = (gradients / (gradients.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(WORK)
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2).contiguous() if tall else x
    for _ in range(5):
        a = torch.bmm(x, x.transpose(-1, -2))
        x = 3.4445 * x + torch.bmm(-4.7750 * a + 2.0315 * torch.bmm(a, a), x)
    return (x.transpose(-1, -2) if tall else x).float()


class Muon:
    """Momentum with orthogonalised steps; parts of one shape, of all layers, go through together. Each member of the
    team orthogonalises some of them."""

    def __init__(self, matrices, team, decay=0.1):
        self.decay, self.team, self.momentum, self.groups = decay, team, [], {}
        for index, (matrix, parts) in enumerate(matrices):
            self.momentum.append(torch.zeros_like(matrix))
            row = 0
            for rows in parts:
                self.groups.setdefault((rows, matrix.shape[1]), []).append((index, matrix, row))
                row += rows

    @torch.no_grad()
    def step(self, rate):
        updates, begin = [], 0
        for (rows, columns), group in self.groups.items():
            gradients = torch.stack([matrix.grad[row:row + rows] for _, matrix, row in group])
            for (index, _, row), gradient in zip(group, gradients):
                momentum = self.momentum[index][row:row + rows].mul_(0.95).add_(gradient)
                gradient.add_(momentum, alpha=0.95)
            updates.append(self.team.shared[begin:begin + gradients.numel()].view_as(gradients))
            begin += gradients.numel()
            own = slice(self.team.number, None, self.team.members)
            updates[-1][own] = orthogonalise(gradients[own])
        self.team.meet()
        for ((rows, columns), group), of_group in zip(self.groups.items(), updates):
            for (_, matrix, row), update in zip(group, of_group):
                matrix[row:row + rows].mul_(1 - rate * self.decay).add_(
                    update, alpha=-rate * max(1, rows / columns)**0.5)

    def state(self):
        return self.momentum

    def load(self, state):
        for mine, saved in zip(self.momentum, state):
            mine.copy_(saved)


class Adam:
    def __init__(self, parameters, betas=(0.9, 0.95)):
        self.parameters, self.betas, self.steps = parameters, betas, 0
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self, rate):
        self.steps += 1
        a, b = self.betas
        for p, first, second in zip(self.parameters, self.first, self.second):
            first.mul_(a).add_(p.grad, alpha=1 - a)
            second.mul_(b).addcmul_(p.grad, p.grad, value=1 - b)
            root = (second / (1 - b**self.steps)).sqrt_().add_(1e-8)
            p.addcdiv_(first, root, value=-rate / (1 - a**self.steps))

    def state(self):
        return {"steps": self.steps, "first": self.first, "second": self.second}

    def load(self, state):
        self.steps = state["steps"]
        for mine, saved in zip(self.first + self.second, state["first"] + state["second"]):
            mine.copy_(saved)
