#!/usr/bin/env python3
"""Runs the program as a user would: exit codes, first lines, files left behind.

Usage: command_line_test.py PROGRAM SOURCE_DIR
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, SOURCE = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
failures = []


def run(*arguments, cwd):
    return subprocess.run([PROGRAM, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=120)


def expect(name, result, code, stderr="", stdout=""):
    problems = []
    if result.returncode != code:
        problems.append(f"exit code {result.returncode}, expected {code}")
    if stderr and not re.search(stderr, result.stderr):
        problems.append(f"stderr {result.stderr!r} lacks {stderr!r}")
    if stdout and not re.search(stdout, result.stdout):
        problems.append(f"stdout {result.stdout[:400]!r} lacks {stdout!r}")
    if code == 2 and (result.stderr.count("\n") != 1 or result.stdout):
        problems.append(f"a mistake of the user is one line on stderr, not {result.stderr!r} and {result.stdout[:80]!r}")
    if problems:
        failures.append(f"{name}: " + "; ".join(problems))


def user_mistakes(folder):
    cases = {
        "no model": (["--gpus", "8"], r"--model is missing"),
        "no gpus": (["--model", "gpt10b"], r"--gpus is missing"),
        "zero gpus": (["--model", "gpt10b", "--gpus", "0"], r"--gpus: '0' must be a whole number from 1"),
        "negative gpus": (["--model", "gpt10b", "--gpus=-4"], r"'-4' must be a whole number"),
        "words for gpus": (["--model", "gpt10b", "--gpus", "many"], r"'many' must be a whole number"),
        "too many gpus": (["--model", "gpt10b", "--gpus", "99999999999"], r"must be a whole number from 1 to"),
        "unknown flag": (["--model", "gpt10b", "--gpu", "8"], r"unknown option '--gpu'; did you mean '--gpus'\?"),
        "unknown verb": (["simulat"], r"unknown verb 'simulat'; did you mean 'simulate'\?"),
        "unknown model": (["--model", "gpt10", "--gpus", "8"], r"no shipped model of that name; did you mean 'gpt10b'\?"),
        "unknown topology": (["--model", "gpt10b", "--gpus", "8", "--topology", "dgx-h10"], r"did you mean 'dgx-h100'\?"),
        "no fabric": (["--model", "gpt2-124m", "--gpus", "8", "--topology", "3090-4x"], r"has 4 GPUs and no fabric"),
        "batch without unit": (["--model", "gpt10b", "--gpus", "8", "--global-batch", "512"], r"write a batch as"),
        "batch of half samples": (["--model", "gpt10b", "--gpus", "8", "--global-batch", "3000 tokens"], r"nearest are 2048 and 4096"),
        "wrong fix": (["--model", "gpt10b", "--gpus", "8", "--fix", "tq=8"], r"did you mean 'tp'\?"),
        "wrong precision": (["--model", "gpt10b", "--gpus", "8", "--precision", "bf61"], r"did you mean 'bf16'\?"),
        "margin of all": (["--model", "gpt10b", "--gpus", "8", "--memory-margin", "1"], r"a share from 0 to less than 1"),
        "missing value": (["--model", "gpt10b", "--gpus"], r"--gpus"),
        "twice": (["--model", "gpt10b", "--gpus", "8", "--gpus", "16"], r"--gpus"),
        "plan is no file": (["simulate", "none.yaml"], r"none.yaml: no such file"),
        "plan given twice": (["check", "a.yaml", "--plan", "b.yaml"], r"'a.yaml' and --plan are both given"),
        "one argument too many": (["check", "a.yaml", "b.yaml"], r"unknown argument 'b.yaml'"),
        "argument after an option": (["--model", "gpt10b", "--gpus", "8", "16"], r"unknown argument '16'"),
        "axis without value": (["--model", "gpt10b", "--gpus", "8", "--fix", "tp"], r"--fix: 'tp' must be axis=value"),
        "validate nothing": (["validate", "/nowhere"], r"/nowhere: no such folder"),
    }
    for name, (arguments, message) in cases.items():
        expect(name, run(*arguments, cwd=folder), 2, stderr=message)
    if list(folder.iterdir()):
        failures.append(f"mistakes left files behind: {list(folder.iterdir())}")
    bad = folder / "bad.yaml"
    for name, text, message in [
        ("unknown key", "name: m\nfamily: gpt\nlayrs: 2\n", r"bad.yaml:3:8: layrs: unknown key 'layrs'; did you mean 'layers'"),
        ("not YAML", "a: [1, 2\n", r"bad.yaml:2:"),
        ("binary", "\x00\x01\x02\xff", r"bad.yaml"),
        ("empty", "", r"bad.yaml: a model must be a map"),
        ("deepseek", '{"model_type": "deepseek_v3"}', r"bad.yaml:1:16: model_type: model_type 'deepseek_v3' is not supported; known: "),
    ]:
        bad.write_text(text)
        expect(f"model file: {name}", run("--model", bad, "--gpus", "8", cwd=folder), 2, stderr=message)
    bad.unlink()


def plan_and_the_verbs(folder):
    expect("plan", run("--model", "tiny-llama", "--gpus", "8", "-o", "best.yaml", cwd=folder), 0, stdout=r"Best: tp ")
    if [p.name for p in folder.iterdir()] != ["best.yaml"]:
        failures.append(f"plan left {list(folder.iterdir())}")
    expect("simulate", run("simulate", "best.yaml", "--trace", "t.json", cwd=folder), 0, stdout=r"ideal compute")
    check_trace(json.loads((folder / "t.json").read_text()))
    expect("check", run("check", "--plan", "best.yaml", cwd=folder), 0, stdout=r"Legal, and it fits")
    expect("explain", run("explain", "best.yaml", cwd=folder), 0, stdout=r"single change")
    # What follows an option's value is the verb's own argument.
    expect("argument last", run("simulate", "--trace", "t2.json", "--max-tp", "8", "best.yaml", cwd=folder), 0, stdout=r"ideal compute")
    expect("topo, argument last", run("topo", "--gpus", "4", "dgx-1v", cwd=folder), 0, stdout=r"Weakest link")
    expect("topo", run("topo", "dgx-a100-80g", cwd=folder), 0, stdout=r"Weakest link: NIC")
    expect("dot", run("topo", "dgx-1v", "--dot", cwd=folder), 0, stdout=r"^graph G \{")
    expect("model", run("model", "llama-3-8b", cwd=folder), 0, stdout=r"8030261248 parameters")
    expect("list", run("list", cwd=folder), 0, stdout=r"gpt10b")
    expect("version", run("--version", cwd=folder), 0, stdout=r"tpplan \d")
    expect("help", run("--help", cwd=folder), 0, stdout=r"simulate")
    expect("help of a verb", run("plan", "--help", cwd=folder), 0, stdout=r"Usage: tpplan plan (.|\n)*--global-batch")
    for verb in (["--model", "tiny-gpt2", "--gpus", "4"], ["simulate", "best.yaml"], ["check", "best.yaml"], ["explain", "best.yaml"],
                 ["topo", "dgx-h100"], ["model", "gpt10b"], ["list"], ["validate", SOURCE / "tests/validation/runs"]):
        result = run(*verb, "--json", cwd=folder)
        expect(f"--json of {verb[0]}", result, 0)
        json.loads(result.stdout)
    (folder / "plan.yaml").unlink()


def check_trace(events):
    rows = {}
    for event in events:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"], event["name"]))
    if not rows:
        failures.append("trace: no events")
    for row, spans in rows.items():
        spans.sort()
        for before, after in zip(spans, spans[1:]):
            if before[1] > after[0] + 0.002:  # times are printed to a nanosecond
                failures.append(f"trace: {before[2]} and {after[2]} overlap on {row}")


def infeasible_and_illegal(folder):
    result = run("--model", "gpt3-175b", "--gpus", "8", cwd=folder)
    expect("175B on 8 GPUs", result, 3, stdout=r"No plan fits.*\n.*least memory")
    if (folder / "plan.yaml").exists():
        failures.append("an infeasible search wrote a plan")
    run("--model", "tiny-llama", "--gpus", "8", "-o", "p.yaml", cwd=folder)
    text = (folder / "p.yaml").read_text()
    (folder / "p.yaml").write_text(re.sub(r"\ndp: \d+", "\ndp: 3", text))
    expect("illegal plan", run("check", "p.yaml", cwd=folder), 3, stdout=r"world_size: .*; try ")
    expect("illegal plan is not simulated", run("simulate", "p.yaml", cwd=folder), 3, stdout=r"not legal")
    expect("illegal plan is not explained", run("explain", "p.yaml", cwd=folder), 3, stdout=r"not legal:\n.*world_size: .*; try ")
    result = run("explain", "p.yaml", "--json", cwd=folder)
    expect("illegal plan, explained as JSON", result, 3)
    if "world_size" not in [v["rule"] for v in json.loads(result.stdout)["violations"]] or "simulation" in json.loads(result.stdout):
        failures.append("illegal plan: JSON lacks its rule, or holds figures")


def plan_that_does_not_fit(folder):
    """llama-3-8b whole on each GPU: 8.03e9 x 16 B of weights, gradients and optimizer are 128 GB of 85 GB."""
    run("--model", "llama-3-8b", "--gpus", "8", "--fix", "tp=1", "--fix", "pp=1", cwd=folder)
    text = re.sub(r"\nzero: \d", "\nzero: 0", (folder / "plan.yaml").read_text())
    (folder / "big.yaml").write_text(text)
    for verb in ("check", "simulate", "explain"):
        expect(f"{verb} of a plan that does not fit", run(verb, "big.yaml", cwd=folder), 3, stdout=r"does not fit|that may be used")
        expect(f"{verb} of it as JSON", run(verb, "big.yaml", "--json", cwd=folder), 3)
    expect("smallest change", run("explain", "big.yaml", cwd=folder), 3, stdout=r"Smallest change that fits: .*; then .* \([+-]")


def outputs_that_fail(folder):
    """A result that cannot be written is a failure of the machine, whatever was to be printed."""
    for arguments in (["--model", "tiny-gpt2", "--gpus", "1"], ["topo", "dgx-1v", "--dot"], ["list"], ["list", "--options"], ["--help"],
                      ["--version"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, *arguments], cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        if result.returncode != 1 or result.stderr != "tpplan: standard output cannot be written\n":
            failures.append(f"full disk, {arguments}: exit code {result.returncode}, {result.stderr!r}")
    expect("unwritable plan", run("--model", "tiny-gpt2", "--gpus", "1", "-o", "no/such/x.yaml", cwd=folder), 1, stderr=r"x.yaml: cannot be written")
    (folder / "odd 'name\": #1.yaml").write_text((SOURCE / "configs/models/tiny-gpt2.yaml").read_text())
    run("--model", "odd 'name\": #1.yaml", "--gpus", "1", "-o", "odd.yaml", cwd=folder)
    expect("a model of any name", run("check", "odd.yaml", cwd=folder), 0)


def extremes(folder):
    """Numbers at the edge of what is accepted end in an answer, quickly."""
    for name, arguments in {
        "16 million GPUs": ["--model", "tiny-gpt2", "--gpus", "16777216"],
        "a prime number of GPUs": ["--model", "tiny-gpt2", "--gpus", "127"],
        "a batch of 2^39 samples": ["--model", "tiny-gpt2", "--gpus", "8", "--global-batch", "549755813888 samples"],
        "one token": ["--model", "gpt10b", "--gpus", "8", "--seq", "1", "--global-batch", "1 samples"],
        "every framework": ["--model", "tiny-llama", "--gpus", "8", "--framework", "deepspeed-2021"],
        "tensor parallelism beyond NVLink": ["--model", "tiny-gpt2", "--gpus", "16", "--max-tp", "16", "--fix", "tp=4"],
    }.items():
        result = run(*arguments, cwd=folder)
        if result.returncode not in (0, 3):
            failures.append(f"{name}: exit code {result.returncode}: {result.stderr}")


def interrupt(folder):
    """SIGINT ends a long search with 130 and no plan."""
    process = subprocess.Popen([PROGRAM, "--model", "llama-3-405b", "--gpus", "2048", "--global-batch", "16384 samples",
                                "--objective", "memory", "--top", "1000", "--threads", "1"],
                               cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    if process.returncode != 130 or "interrupted" not in stderr or (folder / "plan.yaml").exists():
        failures.append(f"interrupt: exit code {process.returncode}, stderr {stderr!r}")


def experiment_and_precedence(folder):
    experiment = folder / "e.yaml"
    experiment.write_text("model: tiny-gpt2\ngpus: 8\nfix: {tp: 2, zero: [0, 1]}\ntop: 3\n")
    result = run("--experiment", experiment, "--json", cwd=folder)
    expect("experiment", result, 0)
    plans = json.loads(result.stdout)["plans"]
    if len(plans) != 3 or any(p["plan"]["tp"] != 2 or p["plan"]["zero"] > 1 for p in plans):
        failures.append("experiment: settings not obeyed")
    plans = json.loads(run("--experiment", experiment, "--gpus", "4", "--top", "1", "--json", cwd=folder).stdout)["plans"]
    if len(plans) != 1 or plans[0]["plan"]["tp"] * plans[0]["plan"]["pp"] * plans[0]["plan"]["dp"] != 4:
        failures.append("experiment: the command line does not win")
    experiment.write_text("model: tiny-gpt2\ngpus: eight\n")
    expect("experiment mistake", run("--experiment", experiment, cwd=folder), 2, stderr=r"e.yaml:2:7: gpus: 'eight' must be a whole")
    expect("shipped experiment", run("--experiment", "gpt10b-128", "--top", "1", cwd=folder), 0, stdout=r"Cluster .*: 16 x 8 x (.|\n)*Best: tp ")
    expect("unknown experiment", run("--experiment", "gpt10b-12", cwd=folder), 2, stderr=r"no shipped experiment of that name; did you mean 'gpt10b-128'\?")
    experiment.write_text("modle: tiny-gpt2\n")
    expect("experiment key", run("--experiment", experiment, cwd=folder), 2, stderr=r"did you mean 'model'\?")


def options_page(folder):
    page = run("list", "--options", cwd=folder).stdout
    if page != (SOURCE / "docs/options.md").read_text():
        failures.append("docs/options.md differs from the option table; run make docs")


def main():
    for part in (user_mistakes, plan_and_the_verbs, infeasible_and_illegal, plan_that_does_not_fit, outputs_that_fail, extremes, interrupt, experiment_and_precedence, options_page):
        with tempfile.TemporaryDirectory() as folder:
            part(pathlib.Path(folder))
    print("\n".join(failures) or "all as expected")
    return 1 if failures else 0


sys.exit(main())
