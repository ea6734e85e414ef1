#!/usr/bin/env python3
"""How well calibrated predictions hold for plans that were not used for the fit: the figures of docs/calibration.md.

Usage: calibration_study.py TPPLAN FOLDER [--rounds N] [--steps N] [--hostfile FILE]
Probes four ranks, runs at least twelve plans over all degrees of four ranks, interleaved and several times, fits the
calibration to every other plan and predicts the rest. Prints errors beside the run-to-run spread, and the regret of the
plan that would have been chosen: its measured time over the best measured, minus one.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess

MODEL = """name: little
family: gpt
layers: 8
hidden: 256
heads: 8
ffn: 1024
vocabulary: 1024
sequence: 128
"""
# tp, pp, dp with what varies beside them: every degree twice, once for the fit and once for the prediction.
VARIANTS = [
    (4, 1, 1, ["mb=4", "recompute=none", "zero=0", "sp=false"]), (4, 1, 1, ["mb=8", "recompute=full", "zero=0", "sp=true"]),
    (2, 2, 1, ["mb=2", "recompute=none", "zero=0", "sp=false"]), (2, 2, 1, ["mb=4", "recompute=full", "zero=0", "sp=false"]),
    (2, 1, 2, ["mb=4", "recompute=none", "zero=0", "sp=false"]), (2, 1, 2, ["mb=2", "recompute=none", "zero=2", "sp=true"]),
    (1, 4, 1, ["mb=1", "recompute=none", "zero=0", "sp=false"]), (1, 4, 1, ["mb=2", "recompute=none", "zero=0", "sp=false"]),
    (1, 2, 2, ["mb=1", "recompute=none", "zero=1", "sp=false"]), (1, 2, 2, ["mb=2", "recompute=selective", "zero=0", "sp=false"]),
    (1, 1, 4, ["mb=2", "recompute=none", "zero=1", "sp=false"]), (1, 1, 4, ["mb=4", "recompute=full", "zero=3", "sp=false"]),
    (1, 1, 4, ["mb=4", "recompute=none", "zero=0", "sp=false"]), (1, 4, 1, ["mb=4", "recompute=full", "zero=0", "sp=false"]),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tpplan")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--hostfile", default=os.environ.get("LAB_HOSTFILE"), help="of a lab, whose hosts share this machine's cores")
    parser.add_argument("--max-tp", default="4")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.yaml").write_text(MODEL)
    launch = ["--rank-threads", "1"] + (["--hostfile", options.hostfile, "--bind", "none"] if options.hostfile else [])

    def tpplan(*arguments):
        done = subprocess.run([options.tpplan, *map(str, arguments), "--json"], capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return json.loads(done.stdout)

    topology = folder / "topology.yaml"
    tpplan("probe", "--ranks", 4, "--model", folder / "model.yaml", "--out", folder / "probe", "-o", topology, *launch)
    plans = []
    for number, (tp, pp, dp, fixed) in enumerate(VARIANTS):
        file = folder / f"plan-{number:02}.yaml"
        fixes = [f"tp={tp}", f"pp={pp}", f"dp={dp}", *fixed, "schedule=1f1b"]
        tpplan("plan", "--model", folder / "model.yaml", "--topology", topology, "--gpus", 4, "--framework", "tpplan", "--precision",
               "fp32", "--global-batch", "16 samples", "--max-tp", options.max_tp, "-o", file, *itertools.chain(*(("--fix", f) for f in fixes)))
        plans.append(file)
    times = [[] for _ in plans]
    for round_ in range(options.rounds):
        for number, file in enumerate(plans):
            out = folder / f"run-{number:02}-{round_}"
            if (out / "report.json").exists():  # of a study that was interrupted
                rows = (out / "losses.csv").read_text().splitlines()[2:]
                times[number].append(statistics.median_high(float(row.split(",")[4]) for row in rows))
                continue
            report = tpplan("run", "--plan", file, "--max-tp", options.max_tp, "--steps", options.steps, "--out", out, "--no-save", *launch)
            times[number].append(report["median_step_s"])
    measured = [statistics.median(t) for t in times]
    spread = [(max(t) - min(t)) / statistics.median(t) / 2 for t in times]
    fitted = [n for n in range(len(plans)) if n % 2 == 0]
    # The run of the median time of each fitted plan tells the calibration.
    middle = {n: sorted(range(options.rounds), key=lambda r: times[n][r])[options.rounds // 2] for n in fitted}
    calibration = folder / "calibration.yaml"
    fit = tpplan("calibrate", "-o", calibration, "--max-tp", options.max_tp, *itertools.chain(*(("--run", folder / f"run-{n:02}-{middle[n]}") for n in fitted)))
    print("factors:", {k: round(v["factor"], 3) for k, v in fit["factors"].items()}, "slowdown", fit["overlap_slowdown"])
    print("| plan | used for the fit | measured | spread | before | after | error |\n|---|---|---|---|---|---|---|")
    errors, predicted = [], []
    for number, file in enumerate(plans):
        before = tpplan("simulate", file, "--max-tp", options.max_tp)["simulation"]["step_s"]
        after = tpplan("simulate", file, "--max-tp", options.max_tp, "--calibration", calibration)["simulation"]["step_s"]
        predicted.append(after)
        error = after / measured[number] - 1
        if number not in fitted:
            errors.append(abs(error))
        tp, pp, dp, fixed = VARIANTS[number]
        print(f"| tp{tp} pp{pp} dp{dp} {' '.join(fixed)} | {'yes' if number in fitted else 'no'} | {measured[number] * 1e3:.0f} ms | "
              f"±{spread[number] * 100:.0f} % | {before * 1e3:.0f} ms | {after * 1e3:.0f} ms | {error * 100:+.1f} % |")
    choice = min(range(len(plans)), key=lambda n: predicted[n])
    print(f"plans not used for the fit: median error {statistics.median(errors) * 100:.1f} %, largest {max(errors) * 100:.1f} %")
    print(f"regret of the predicted best: {(measured[choice] / min(measured) - 1) * 100:.1f} %")


if __name__ == "__main__":
    main()
