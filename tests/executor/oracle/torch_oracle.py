#!/usr/bin/env python3
"""The same training in PyTorch, written apart from the executor: same initial weights and tokens, so the losses must agree.

Usage: torch_oracle.py WORKER FOLDER       runs tpplan-worker and PyTorch on a GPT-2, a Llama and a Qwen shape
Exit code 77 when PyTorch is not installed.
"""
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: PyTorch is not installed (Debian: python3-torch)")
    sys.exit(77)

STEPS = 20
TRAINING = dict(learning_rate=3e-3, min_learning_rate=3e-4, warmup_steps=4, total_steps=20, beta1=0.9, beta2=0.95,
                epsilon=1e-8, weight_decay=0.1, clip=1.0, seed=7)
COMMON = dict(layers=3, hidden=64, heads=4, vocabulary=256, sequence=32)
SHAPES = {
    "gpt2": dict(COMMON, family="gpt", ffn=256),
    "llama": dict(COMMON, family="llama", ffn=160, kv_heads=2, norm_epsilon=1e-6, rope_theta=5000),
    "qwen3": dict(COMMON, family="llama", ffn=160, kv_heads=2, qk_norm="true", qkv_bias="true", tied_embeddings="true"),
}
# The first plan is one rank; the others must give the same losses as PyTorch too.
PLANS = [dict(tp=1, dp=1, pp=1, zero=0), dict(tp=2, dp=2, pp=1, zero=2)]


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        assert info["dtype"] == "F32"
        raw = bytearray(data[8 + length + begin:8 + length + end])
        tensors[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(info["shape"]).clone()
    return tensors


class Model:
    """Functional transformer over a dictionary of tensors with the names of a Hugging Face checkpoint."""

    def __init__(self, shape, tensors):
        self.s = shape
        self.w = {name: t.requires_grad_() for name, t in tensors.items()}
        self.epsilon = shape.get("norm_epsilon", 1e-5)

    def attend(self, q, k, v, heads, kv_heads):
        batch, length, _ = q.shape
        q, k, v = (x.view(batch, length, n, -1).transpose(1, 2) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
        return batch, length, q, k, v

    def finish(self, q, k, v):
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        length = q.shape[2]
        scores = scores.masked_fill(torch.triu(torch.ones(length, length, dtype=torch.bool), 1), float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(q.shape[0], length, -1)

    def gpt2(self, tokens):
        w, heads = self.w, self.s["heads"]

        def norm(x, name):
            return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], self.epsilon)

        def conv(x, name):
            return x @ w[name + ".weight"] + w[name + ".bias"]

        x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:tokens.shape[1]]
        for i in range(self.s["layers"]):
            p = f"transformer.h.{i}."
            q, k, v = conv(norm(x, p + "ln_1"), p + "attn.c_attn").chunk(3, -1)
            _, _, q, k, v = self.attend(q, k, v, heads, heads)
            x = x + conv(self.finish(q, k, v), p + "attn.c_proj")
            u = conv(norm(x, p + "ln_2"), p + "mlp.c_fc")
            u = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u ** 3)))
            x = x + conv(u, p + "mlp.c_proj")
        return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T

    def llama(self, tokens):
        w, s = self.w, self.s
        length, dim = tokens.shape[1], s["hidden"] // s["heads"]

        def norm(x, name):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * w[name + ".weight"]

        def linear(x, name):
            return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

        angles = torch.outer(torch.arange(length).float(),
                             s.get("rope_theta", 10000.0) ** (-torch.arange(0, dim, 2).float() / dim))
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()

        def rotate(x):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat((-b, a), -1) * sin

        x = w["model.embed_tokens.weight"][tokens]
        for i in range(s["layers"]):
            p = f"model.layers.{i}."
            n = norm(x, p + "input_layernorm")
            q, k, v = (linear(n, p + f"self_attn.{name}_proj") for name in "qkv")
            _, _, q, k, v = self.attend(q, k, v, s["heads"], s["kv_heads"])
            if s.get("qk_norm"):
                q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
            x = x + linear(self.finish(rotate(q), rotate(k), v), p + "self_attn.o_proj")
            n = norm(x, p + "post_attention_layernorm")
            x = x + linear(F.silu(linear(n, p + "mlp.gate_proj")) * linear(n, p + "mlp.up_proj"), p + "mlp.down_proj")
        head = w["model.embed_tokens.weight"] if s.get("tied_embeddings") else w["lm_head.weight"]
        return norm(x, "model.norm") @ head.T

    def loss(self, tokens):
        logits = (self.gpt2 if self.s["family"] == "gpt" else self.llama)(tokens[:, :-1])
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def rate(step):
    t = TRAINING
    if step < t["warmup_steps"]:
        return t["learning_rate"] * (step + 1) / t["warmup_steps"]
    share = min(1.0, (step - t["warmup_steps"]) / max(1, t["total_steps"] - t["warmup_steps"]))
    return t["min_learning_rate"] + 0.5 * (t["learning_rate"] - t["min_learning_rate"]) * (1 + math.cos(math.pi * share))


def train(shape, tensors, batches):
    model = Model(shape, tensors)
    parameters = list(model.w.values())
    t = TRAINING
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": t["weight_decay"]},
         {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
        betas=(t["beta1"], t["beta2"]), eps=t["epsilon"])
    losses, norms = [], []
    for step, tokens in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        loss = model.loss(tokens)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, t["clip"])))
        optimizer.step()
        losses.append(float(loss))
    return losses, norms


def yaml(pairs):
    return "".join(f"{key}: {value}\n" for key, value in pairs.items())


def run_worker(worker, folder, plan, name, steps, weights=""):
    out = folder / name
    out.mkdir(parents=True, exist_ok=True)
    shape = plan.pop("shape")
    layers, pp = shape["layers"], plan["pp"]
    (folder / "model.yaml").write_text(yaml(dict(name="oracle", **shape)))
    stages = f"stages:\n  - {{first: 0, layers: {layers}, embedding: true, head: true}}\n"
    assert pp == 1, "the stages below are one"
    (out / "plan.yaml").write_text(
        yaml(dict(model="model.yaml", topology="local-cpu", gpus=plan["tp"] * plan["dp"], micro_batch=2, global_batch=8,
                  sequence=shape["sequence"], recompute="none", schedule="1f1b", precision="fp32", **plan)) + stages)
    (out / "job.yaml").write_text(yaml(dict(
        task="train", model=folder / "model.yaml", plan=out / "plan.yaml", data=folder / "text.txt", output=out,
        steps=steps, weights=weights or '""', measure="false", threads=1, **TRAINING)))
    subprocess.run([worker, out / "job.yaml"], check=True, stdout=subprocess.DEVNULL, timeout=300)
    rows = [line.split(",") for line in (out / "losses.csv").read_text().splitlines()[1:]]
    return [float(r[1]) for r in rows], [float(r[2]) for r in rows]


def permuted(index, n, key):
    """The executor's order of samples: a Feistel network with cycle walking."""
    mask64 = (1 << 64) - 1

    def mix(z):
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & mask64
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & mask64
        return z ^ (z >> 31)

    half = ((n - 1).bit_length() + 1) // 2
    x = index
    while True:
        for r in range(4):
            left, right = x >> half, x & ((1 << half) - 1)
            x = right << half | (left ^ (mix((right + mix(key) + r * 0x9e3779b97f4a7c15) & mask64) & ((1 << half) - 1)))
        if x < n:
            return x


def main():
    worker, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)  # losses of an earlier run would be added to
    torch.set_num_threads(1)
    text = (pathlib.Path(__file__).read_text() + (pathlib.Path(__file__).parents[3] / "docs/cost-model.md").read_text()).encode()
    worst = 0.0
    for name, shape in SHAPES.items():
        case = folder / name
        case.mkdir(parents=True, exist_ok=True)
        (case / "text.txt").write_bytes(text)
        s, batch = shape["sequence"], 8
        windows = (len(text) - 1) // s
        assert STEPS * batch <= windows, "one epoch"
        batches = [torch.tensor([list(text[w * s:w * s + s + 1]) for w in
                                 (permuted(step * batch + i, windows, TRAINING["seed"]) for i in range(batch))])
                   for step in range(STEPS)]
        begin = trained_weights(worker, case, dict(PLANS[0], shape=shape))
        expected, expected_norms = train(shape, read_safetensors(begin), batches)
        for number, plan in enumerate(PLANS):
            losses, norms = run_worker(worker, case, dict(plan, shape=shape), f"plan{number}", STEPS, begin)
            for kind, got, want, bound in (("loss", losses, expected, 2e-5), ("gradient norm", norms, expected_norms, 2e-3)):
                error = max(abs(a / b - 1) for a, b in zip(got, want))
                worst = max(worst, error) if kind == "loss" else worst
                assert len(got) == STEPS and error < bound, f"{name} plan {number}: {kind} off by {error:.2e}: {got} {want}"
            print(f"{name} plan {number}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, PyTorch the same")
    print(f"largest relative difference of a loss: {worst:.1e}")


def trained_weights(worker, folder, plan):
    """Weights after three steps, so that gains are not one and biases not zero: what loads them wrongly shows."""
    run_worker(worker, folder, plan, "begin", 3)
    return folder / "begin/checkpoints/step-00000003/model.safetensors"


if __name__ == "__main__":
    main()
