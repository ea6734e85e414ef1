#!/usr/bin/env python3
"""Steps of the executor and of PyTorch in turns, on the same machine in the same minutes; prints both and their ratio.

Usage: against_torch.py TPPLAN [--rounds N]        needs Debian's python3-torch; exit code 77 without it
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
TPPLAN = str(pathlib.Path(sys.argv[1]).resolve())
ROUNDS = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 3
SMALL = "name: small\nfamily: gpt\nlayers: 6\nhidden: 384\nheads: 6\nffn: 1536\nvocabulary: 8192\nsequence: 256\n"
# name, model, dp, micro-batch, sequence, precision, rank threads, what PyTorch is asked, the aim of the ratio
CASES = [
    ("GPT-2 124M fp32, 2 threads", "gpt2-124m", 1, 4, 64, "fp32", 2, ["--model", "gpt2-124m"], 0.5),
    ("GPT-2 124M bf16, 2 threads", "gpt2-124m", 1, 4, 64, "bf16", 2, ["--model", "gpt2-124m", "--precision", "bf16"], 0.45),
    ("small under DDP, 2 ranks of 1 thread", "small.yaml", 2, 8, 256, "fp32", 1,
     ["--model", "small", "--batch", "8", "--sequence", "256", "--ddp", "2"], 0.6),
    ("small, 1 rank of 2 threads, the same batch", "small.yaml", 1, 16, 256, "fp32", 2, None, None),
]


def main():
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode != 0:
        print("skipped: PyTorch is not installed (Debian: python3-torch)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "small.yaml").write_text(SMALL)
        ours, theirs = [[] for _ in CASES], [[] for _ in CASES]
        for round_ in range(ROUNDS):
            for i, (_, model, dp, micro, sequence, precision, threads, torch, _) in enumerate(CASES):
                layers = 12 if model == "gpt2-124m" else 6
                (folder / "plan.yaml").write_text(
                    f"model: {model}\ntopology: local-cpu\ngpus: {dp}\ntp: 1\ndp: {dp}\npp: 1\nzero: 0\nmicro_batch: {micro}\n"
                    f"global_batch: {micro * dp}\nsequence: {sequence}\nrecompute: none\nschedule: 1f1b\nprecision: {precision}\n"
                    f"runtime: {{framework: tpplan}}\nstages:\n  - {{first: 0, layers: {layers}, embedding: true, head: true}}\n")
                run = subprocess.run([TPPLAN, "run", "plan.yaml", "--steps", "6", "--no-save", "--rank-threads", str(threads), "--out",
                                      f"run-{i}-{round_}", "--json"], cwd=folder, capture_output=True, text=True)
                assert run.returncode == 0, run.stderr
                ours[i].append(json.loads(run.stdout)["median_step_s"])
                if torch:
                    done = subprocess.run(["/usr/bin/python3", HERE / "torch_step.py", "--steps", "4", *torch], capture_output=True, text=True)
                    theirs[i].append(json.loads(done.stdout.splitlines()[-1])["median_s"])
    print("| step | tpplan | PyTorch | ratio | aim |\n|---|---|---|---|---|")
    for i, case in enumerate(CASES):
        own = statistics.median(ours[i])
        other = statistics.median(theirs[i]) if theirs[i] else None
        print(f"| {case[0]} | {own:.2f} s | {f'{other:.2f} s' if other else '-'} | {f'{own / other:.2f}' if other else '-'} | {case[8] or '-'} |")


if __name__ == "__main__":
    main()
