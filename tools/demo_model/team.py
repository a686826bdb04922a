"""Several processes that train one model: each computes a batch of its own, and all take the mean of their gradients."""
import ctypes
import multiprocessing
import os
import signal
import sys

import torch

PR_SET_PDEATHSIG = 1


class Team:
    """The first member is the process that makes it; the others end with it."""

    def __init__(self, members, parameters):
        self.members, self.number, self.parameters = members, 0, parameters
        self.barrier = multiprocessing.Barrier(members)
        self.gradients = torch.zeros(members, sum(p.numel() for p in parameters)).share_memory_()
        # What each computes for all; on a GPU there is one member.
        self.shared = torch.zeros(self.gradients.shape[1], device=parameters[0].device).share_memory_()

    def begin(self, work):
        """Starts the others, which do `work` over and over. Nothing may have been computed by several threads yet."""
        first = os.getpid()
        for number in range(1, self.members):
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the first one saves, and ends them
                self.number = number
                while os.getppid() == first:
                    work()
                os._exit(0)
        if self.members > 1:
            signal.signal(signal.SIGCHLD, lambda *_: sys.exit("train.py: a process of the team died"))

    def meet(self):
        """What all have written to `shared` is there behind this."""
        self.barrier.wait()

    def take_mean(self):
        """Of all members' gradients: in one order, so that all get the same bits."""
        if self.members == 1:
            return
        torch.cat([p.grad.flatten() for p in self.parameters], out=self.gradients[self.number])
        self.barrier.wait()
        mean, begin = self.gradients.mean(0), 0
        self.barrier.wait()
        for p in self.parameters:
            p.grad.copy_(mean[begin:begin + p.numel()].view_as(p))
            begin += p.numel()
