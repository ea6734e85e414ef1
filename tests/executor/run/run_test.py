#!/usr/bin/env python3
"""tpplan run, verify, rehearse, compare, probe, calibrate and tune as a user meets them, with real ranks.

Usage: run_test.py TPPLAN [--mpi]     --mpi: ranks are processes of Open MPI, and some of them are killed
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

from run_case import MODEL, RunCase, plan_text

MPI = "--mpi" in sys.argv


class RunTest(RunCase):
    def launch(self):
        return ["--launcher", "mpirun" if MPI else "threads", "--rank-threads", "1"]

    def test_trains_measures_and_compares(self):
        report = json.loads(self.tpplan("run", "plan.yaml", "--data", "text.txt", "--steps", 12, "--lr", "3e-3", "--out", "run", "--json",
                                        *self.launch()))
        self.assertEqual(len(report["steps"]), 12)
        self.assertLess(report["steps"][-1]["loss"], report["steps"][0]["loss"] - 0.5)
        self.assertEqual(len(report["memory"]), 4)
        self.assertGreater(report["unigram_entropy"], 2)
        self.assertTrue((self.folder / "run/checkpoints/step-00000012/manifest.json").exists())
        self.assertTrue(list((self.folder / "run/tensorboard").glob("events.out.tfevents.*")))
        compared = json.loads(self.tpplan("compare", "run", "--trace", "trace.json", "--json"))
        self.assertEqual(compared["only_predicted"], [])
        self.assertEqual(compared["only_measured"], [])
        self.assertIn("s1 backward", [t["what"] for t in compared["tasks"]])
        names = {e["name"] for e in json.loads((self.folder / "trace.json").read_text()) if e["ph"] == "X"}
        self.assertIn("s1.mb3.bwd", names)

    def test_every_zero_stage_leaves_no_label_without_partner(self):
        for zero in (1, 2, 3):
            self.write("plan.yaml", plan_text(tp=1, pp=2, dp=2, zero=zero, bucket="32 KiB", global_batch=8))
            self.tpplan("run", "plan.yaml", "--steps", 3, "--out", f"zero{zero}", "--no-save", *self.launch())
            compared = json.loads(self.tpplan("compare", f"zero{zero}", "--json"))
            # The engine gathers an embedding for its backward, which the executor does without.
            missing = [label for label in compared["only_predicted"] if "all_gather_bwd" not in label]
            self.assertEqual((missing, compared["only_measured"]), ([], []), f"ZeRO {zero}")

    def test_resumes_with_the_losses_of_an_uninterrupted_run_under_another_plan(self):
        self.tpplan("run", "plan.yaml", "--data", "text.txt", "--steps", 8, "--out", "whole", *self.launch())
        self.tpplan("run", "plan.yaml", "--data", "text.txt", "--steps", 8, "--out", "cut", "--checkpoint-every", 3, *self.launch())
        shutil.rmtree(self.folder / "cut/checkpoints/step-00000008")
        rows = (self.folder / "cut/losses.csv").read_text().splitlines()
        self.write("cut/losses.csv", "\n".join(rows[:7]) + "\n")
        self.write("other.yaml", plan_text(tp=1, pp=1, dp=4, zero=2))
        error = self.tpplan("run", "other.yaml", "--data", "text.txt", "--steps", 8, "--out", "cut", code=2)
        self.assertIn("holds a run already; give --resume", error)
        self.tpplan("run", "other.yaml", "--data", "text.txt", "--steps", 8, "--out", "cut", "--resume", *self.launch())
        whole, cut = self.losses("whole"), self.losses("cut")
        self.assertEqual(sorted(cut), list(range(8)))
        for step, loss in whole.items():
            self.assertAlmostEqual(cut[step], loss, delta=1e-5 * loss)

    def test_an_interrupt_ends_after_the_step_with_a_checkpoint(self):
        process = self.start("run", "plan.yaml", "--steps", 1_000_000, "--out", "run", *self.launch())
        self.wait_for_steps("run", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn("--resume goes on", out)
        last = max(self.losses("run"))
        self.assertTrue((self.folder / f"run/checkpoints/step-{last + 1:08}/manifest.json").exists())

    def test_an_interrupt_ends_a_probe_at_once(self):
        self.write("wide.yaml", MODEL.replace("64", "1024").replace("128", "4096"))  # some minutes of products
        process = self.start("probe", "--ranks", 2, "--model", "wide.yaml", "--out", "probe", "-o", "here.yaml", *self.launch())
        for _ in range(200):
            if self.workers():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, err.strip().splitlines()[-1]), (130, "tpplan: interrupted"))
        self.assertFalse((self.folder / "here.yaml").exists())
        self.assertEqual(self.workers(), [])

    def test_a_second_interrupt_ends_at_once_and_leaves_no_rank(self):
        process = self.start("run", "plan.yaml", "--steps", 1_000_000, "--out", "run", *self.launch())
        self.wait_for_steps("run", process)
        ranks = self.workers()
        self.assertTrue(ranks)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)  # so that the first interrupt finds nobody to end the step
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        for rank in ranks:
            try:
                os.kill(rank, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.assertEqual(process.returncode, 130)
        for _ in range(100):
            if not self.workers():
                return
            time.sleep(0.1)
        self.fail("ranks are left over")

    def workers(self):
        """Process numbers of this test's tpplan-worker ranks."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"tpplan-worker") and os.readlink(entry / "cwd") == str(self.folder):
                    found.append(int(entry.name))
            except OSError:
                pass
        return sorted(found)

    @unittest.skipUnless(MPI, "ranks are threads of one process")
    def test_a_killed_rank_is_named_and_the_run_goes_on_from_its_checkpoint(self):
        process = self.start("run", "plan.yaml", "--steps", 1_000_000, "--checkpoint-every", 2, "--out", "run", *self.launch())
        self.wait_for_steps("run", process, 5)
        os.kill(self.workers()[2], signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertRegex(err, r"rank \d \(process \d+ on \S+\) was killed by signal 9")
        steps = max(self.losses("run")) + 3
        report = json.loads(self.tpplan("run", "plan.yaml", "--steps", steps, "--out", "run", "--resume", "--json", *self.launch()))
        self.assertGreaterEqual(report["resumed_from"], 2)
        self.assertEqual(report["steps"][-1]["step"], steps - 1)

    @unittest.skipUnless(MPI, "ranks are threads of one process")
    def test_a_frozen_rank_ends_the_job_and_the_message_names_who_is_missing(self):
        process = self.start("run", "plan.yaml", "--steps", 1_000_000, "--patience", 2, "--out", "run", *self.launch())
        self.wait_for_steps("run", process)
        frozen = self.workers()[0]
        os.kill(frozen, signal.SIGSTOP)
        start = time.monotonic()
        out, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 20, "2 s of patience, 2 s for the others to tell, and the end")
        self.assertEqual(process.returncode, 1, out + err)
        self.assertIn("missing: rank", err)
        self.assertRegex(err, r"rank \d has waited for \d+ s in ")

    def test_a_full_disk_is_an_error_and_the_checkpoint_before_stays(self):
        small = self.folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small], capture_output=True).returncode != 0:
            self.skipTest("mounting a small file system needs root")
        self.addCleanup(subprocess.run, ["umount", small])
        error = self.tpplan("run", "plan.yaml", "--steps", 6, "--checkpoint-every", 2, "--out", "small/run", *self.launch(), code=1)
        self.assertIn("No space left on device", error)
        self.assertEqual([p.name for p in (small / "run/checkpoints").iterdir()], ["step-00000002"])

    def test_verify_agrees(self):
        for number, plan in enumerate((plan_text(), plan_text(tp=1, pp=1, dp=4, zero=3, precision="bf16"))):
            self.write("plan.yaml", plan)
            report = json.loads(self.tpplan("verify", "plan.yaml", "--data", "text.txt", "--out", f"verify{number}", "--json", *self.launch()))
            self.assertTrue(report["agrees"], report)
            self.assertEqual(report["tensors"], 52)

    @unittest.skipUnless(MPI, "Equality.* holds for ranks as threads")
    def test_gradients_over_mpi_are_those_of_one_rank(self):
        for number, options in enumerate((
                dict(tp=4, pp=1, sequence_parallel="true", recompute="full"), dict(tp=2, pp=2, vpp=2, schedule="interleaved"),
                dict(tp=1, pp=4, schedule="gpipe", recompute="selective"), dict(tp=1, pp=2, dp=2, zero=1),
                dict(tp=2, pp=1, dp=2, zero=2, sequence_parallel="true"), dict(tp=1, pp=1, dp=4, zero=3, recompute="full"))):
            self.write("plan.yaml", plan_text(**options))
            report = json.loads(self.tpplan("verify", "plan.yaml", "--data", "text.txt", "--out", f"mpi{number}", "--json", *self.launch()))
            self.assertTrue(report["agrees"], (options, report))
            self.assertLessEqual(abs(report["loss"] / report["loss_of_one"] - 1), 1e-5)

    def test_rehearses_a_plan_of_many_ranks(self):
        self.tpplan("--model", "gpt10b", "--gpus", 32, "-o", "big.yaml")
        report = json.loads(self.tpplan("rehearse", "big.yaml", "--out", "rehearsal", "--json"))
        self.assertEqual((len(report["memory"]), len(report["steps"])), (32, 2))

    def test_a_dry_run_starts_nothing(self):
        out = self.tpplan("run", "plan.yaml", "--dry-run")
        self.assertIn("Nothing was started", out)
        self.assertIn("tpplan-worker", out)
        self.assertFalse((self.folder / "tpplan-run").exists())
        self.write("hosts", "alpha slots=2\nbeta slots=2  # a comment\n")
        if shutil.which("mpirun"):
            places = json.loads(self.tpplan("run", "plan.yaml", "--dry-run", "--hostfile", "hosts", "--json"))["places"]
            self.assertEqual([p["host"] for p in places], ["alpha", "alpha", "beta", "beta"])
            self.assertEqual(places[3]["tensor"], [2, 3])

    def test_slurm_gets_a_script(self):
        self.tpplan("run", "plan.yaml", "--slurm", "--out", "slurm", env={"PATH": "/nowhere"})  # so that nothing is submitted
        script = (self.folder / "slurm/job.sbatch").read_text()
        self.assertIn("#SBATCH --ntasks-per-node=4", script)
        self.assertIn("srun --mpi=pmix", script)

    def test_the_loop_of_probe_plan_run_and_calibrate(self):
        self.tpplan("probe", "--ranks", 2, "--model", "model.yaml", "--out", "probe", "-o", "here.yaml", *self.launch())
        self.tpplan("plan", "--model", "model.yaml", "--topology", "here.yaml", "--gpus", 2, "--precision", "fp32", "--framework", "tpplan",
                    "--global-batch", "8 samples", "-o", "best.yaml")
        self.tpplan("run", "best.yaml", "--steps", 4, "--out", "one", "--no-save", *self.launch())
        report = json.loads(self.tpplan("calibrate", "--run", "one", "-o", "fitted.yaml", "--json"))
        before, after = (abs(report["runs"][0][key] / report["runs"][0]["measured_s"] - 1) for key in ("before_s", "after_s"))
        self.assertLessEqual(after, before + 1e-9)
        self.tpplan("simulate", "best.yaml", "--calibration", "fitted.yaml")
        tuned = json.loads(self.tpplan("tune", "--model", "model.yaml", "--ranks", 2, "--precision", "fp32", "--global-batch", "8 samples",
                                       "--rounds", 2, "--candidates", 2, "--steps", 3, "--out", "tuned", "--json", *self.launch()))
        self.assertGreaterEqual(len(tuned["tried"]), 2)
        self.assertEqual(tuned["measured_s"], min(t["measured_s"] for t in tuned["tried"]))

    def test_mistakes_end_with_2_and_say_what_would_be_right(self):
        cases = [
            (["run", "plan.yaml", "--data", "none.txt"], "none.txt: cannot be read"),
            (["run", "plan.yaml", "--data", "four.yaml", "--format", "uint32"], "no whole number of 4-byte tokens"),
            (["run", "plan.yaml", "--weights", "text.txt"], "is no safetensors file"),
            (["run", "plan.yaml", "--steps", "0"], "a whole number from 1"),
            (["run", "plan.yaml", "--hostfile", "four.yaml"], "four.yaml:1: 'four' must be slots=N"),
            (["compare", "nowhere"], "nowhere/plan.yaml"),
            (["calibrate"], "--run is missing"),
            (["run", "plan.yaml", "--calibration", "nothing"], "no shipped calibration of that name"),
        ]
        for number, (arguments, message) in enumerate(cases):
            if "--hostfile" in arguments and not shutil.which("mpirun"):
                continue
            more = ["--out", f"wrong{number}"] if arguments[0] == "run" else []
            if arguments[0] == "run" and "--hostfile" not in arguments:
                more += self.launch()
            self.assertIn(message, self.tpplan(*arguments, *more, code=2))
        self.write("plan.yaml", plan_text(tp=3, pp=1))
        self.assertIn("tp 3", self.tpplan("run", "plan.yaml", "--out", "wrong", code=2))
        self.write("plan.yaml", plan_text(precision="tf32"))
        self.assertIn("tf32 is not priced", self.tpplan("run", "plan.yaml", "--out", "wrong", code=2))
        self.write("model.yaml", MODEL.replace("gpt", "llama") + "norms_per_layer: 4\n")
        self.write("plan.yaml", plan_text())
        self.assertIn("4 norms a layer cannot be trained yet", self.tpplan("run", "plan.yaml", "--out", "wrong", code=2))


if __name__ == "__main__":
    RunCase.program = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *(a for a in sys.argv[2:] if a != "--mpi")])
