#!/usr/bin/env python3
"""Seconds of a GPT-2 training step in PyTorch, to hold the executor against on the same machine in the same minute.

Usage: torch_step.py [--model gpt2-124m|small] [--batch N] [--sequence N] [--vocabulary N] [--precision fp32|bf16]
                     [--threads N] [--steps N] [--ddp PROCESSES]
Prints {"median_s": .., "steps": [..]}. With --ddp each process has one thread and a batch of its own (gloo).
"""
import argparse
import json
import math
import os
import statistics
import sys
import time

# Debian's OpenBLAS knows some recent processors and takes kernels of 2006 on others: the peer gets its best.
if "OPENBLAS_CORETYPE" not in os.environ:
    os.environ["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    os.execv(sys.executable, [sys.executable] + sys.argv)

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, mask):
        batch, length, hidden = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln_1(x)).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(mask, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, vocabulary, positions):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        length = tokens.shape[1] - 1
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        x = self.tokens(tokens[:, :-1]) + self.positions.weight[:length]
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def measure(rank, options):
    torch.manual_seed(1)
    torch.set_num_threads(1 if options.ddp else options.threads)
    shape = (12, 768, 12, 50257) if options.model == "gpt2-124m" else (6, 384, 6, options.vocabulary)
    model = Gpt(*shape, 1024)
    if options.ddp:
        import torch.distributed as dist
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
        dist.init_process_group("gloo", rank=rank, world_size=options.ddp)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    times = []
    for step in range(options.steps + 1):
        tokens = torch.randint(0, shape[3], (options.batch, options.sequence + 1))
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model(tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"median_s": statistics.median(times[1:]), "steps": times[1:]}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="gpt2-124m", choices=["gpt2-124m", "small"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--ddp", type=int, default=0)
    parser.add_argument("--port", type=int, default=29511)
    options = parser.parse_args()
    if options.ddp:
        torch.multiprocessing.spawn(measure, args=(options,), nprocs=options.ddp)
    else:
        measure(0, options)


if __name__ == "__main__":
    main()
