#!/usr/bin/env python3
"""tpplan over several hosts: a lab of namespaces on this machine, joined by links of known speed. Skips where there can be none.

Usage: lab_test.py TPPLAN LAB_SWITCH
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from run_case import RunCase, plan_text

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support/lab"))
import lab as labs  # noqa: E402  pylint: disable=wrong-import-position

SWITCH = pathlib.Path(sys.argv[2]).resolve()


class LabTest(RunCase):
    def setUp(self):
        super().setUp()
        self.enterContext(contextlib.chdir(self.folder))  # where commands on the hosts start

    def open(self, **options):
        self.lab = self.enterContext(labs.Lab(SWITCH, **options))
        return self.lab

    def start(self, *arguments, **options):
        if "env" not in options:
            options["env"] = self.lab.environment
        return subprocess.Popen(self.lab.command(0, self.program, *arguments), stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, **options)

    def launch(self):
        return ["--rank-threads", "1", "--hostfile", self.lab.hostfile, "--bind", "none"]

    def expect_losses(self, run, of):
        for step, loss in self.losses(of).items():
            self.assertAlmostEqual(self.losses(run)[step], loss, delta=1e-5 * loss)

    def test_several_hosts_train_like_one(self):
        lab = self.open(hosts=2)
        lab.write_hostfile(2)
        self.tpplan("run", "plan.yaml", "--data", "text.txt", "--steps", 4, "--out", "here", "--launcher", "threads", "--rank-threads", 1)
        for number, options in enumerate((dict(tp=2, pp=2), dict(tp=1, pp=2, dp=2, zero=3), dict(tp=2, pp=1, dp=2, zero=2))):
            self.write("plan.yaml", plan_text(**options))
            report = json.loads(self.tpplan("run", "plan.yaml", "--data", "text.txt", "--steps", 4, "--out", f"run{number}", "--json",
                                            *self.launch()))
            self.assertIn("on 2 hosts", report["how"])
            self.expect_losses(f"run{number}", of="here")
        environment = json.loads((self.folder / "run0/measurements.jsonl").read_text().splitlines()[0])
        self.assertEqual(environment["hosts"], 2)

    def test_a_host_that_dies_ends_the_run_and_it_goes_on_from_its_checkpoint(self):
        lab = self.open(hosts=4)
        self.tpplan("run", "plan.yaml", "--steps", 8, "--out", "whole", "--launcher", "threads", "--rank-threads", 1)
        process = self.start("run", "plan.yaml", "--steps", 1_000_000, "--checkpoint-every", 2, "--patience", 3, "--out", "run", *self.launch())
        self.wait_for_steps("run", process, 5)
        for victim in lab.processes_on(2):
            if victim != lab.holders[2].pid:
                os.kill(victim, signal.SIGKILL)
        start = time.monotonic()
        out, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertIn("h2", err)
        steps = max(self.losses("run")) + 3
        report = json.loads(self.tpplan("run", "plan.yaml", "--steps", max(8, steps), "--out", "run", "--resume", "--json", *self.launch()))
        self.assertGreaterEqual(report["resumed_from"], 2)

    def test_a_probe_finds_the_speed_of_the_link(self):
        found = {}
        for rate, megabytes in (("1gbit", 125), ("100mbit", 12.5)):
            with labs.Lab(SWITCH, hosts=2, rate=rate) as self.lab:
                self.tpplan("probe", "--ranks", 2, "--model", "model.yaml", "--out", rate, "-o", f"{rate}.yaml", *self.launch())
            text = (self.folder / f"{rate}.yaml").read_text()
            found[rate] = 1e3 * float(re.search(r"nic_bandwidth: (\S+) GB/s", text)[1])
            # At most what the wire carries besides headers; a busy machine brings less.
            self.assertLess(found[rate], 0.97 * megabytes)
            self.assertIn("nodes: 2", text)
            self.assertNotIn("shared_cores", text)
        self.assertGreater(found["1gbit"], 2 * found["100mbit"])

    def test_slurm_runs_the_job_that_was_submitted(self):
        reason = labs.why_no_slurm()
        if reason:
            self.skipTest(reason)
        lab = self.open(hosts=2)
        self.write("four.yaml", (self.folder / "four.yaml").read_text().replace("gpus: 4", "gpus: 2\n  nics: 1").replace("gpu[0-3]", "gpu[0-1]")
                   .replace("shared_cores: 2\nnodes: 1", "fabric: {kind: fat-tree, nic_bandwidth: 0.1 GB/s, latency: 60 us}\nnodes: 2")
                   .replace("  links:\n", "  links:\n    - {from: nic0, to: cpu0, kind: pcie, bandwidth: 9 GB/s, latency: 0 us}\n"))
        with labs.Slurm(lab) as slurm:
            self.tpplan("run", "plan.yaml", "--steps", 3, "--out", "here", "--launcher", "threads", "--rank-threads", 1)
            out = self.tpplan("run", "plan.yaml", "--steps", 3, "--slurm", "--rank-threads", 1, "--out", "run", env=slurm.environment)
            self.assertRegex(out, r"Submitted batch job \d+")
            for _ in range(120):
                if not slurm.run("squeue", "-h").strip():
                    break
                time.sleep(0.5)
            said = "".join(p.read_text() for p in (self.folder / "run").glob("slurm-*.out"))
            self.assertTrue((self.folder / "run/report.json").exists(), said)
            self.expect_losses("run", of="here")
            environment = json.loads((self.folder / "run/measurements.jsonl").read_text().splitlines()[0])
            self.assertEqual((environment["hosts"], environment["ranks"]), (2, 4))


if __name__ == "__main__":
    RunCase.program = pathlib.Path(sys.argv[1]).resolve()
    missing = labs.why_not()
    if missing:
        print(f"skipped: {missing}")
        sys.exit(labs.SKIP)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
