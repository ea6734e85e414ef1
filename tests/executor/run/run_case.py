"""What tests of whole runs share: a small model, a plan of four ranks, and a folder with both."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

MODEL = "name: tiny\nfamily: gpt\nlayers: 4\nhidden: 64\nheads: 4\nffn: 128\nvocabulary: 256\nsequence: 32\n"
MACHINE = """name: four
source: "a machine for tests"
device: cpu-core
node:
  gpus: 4
  cpus: 1
  links:
    - {from: "gpu[0-3]", to: cpu0, kind: inter-cpu, bandwidth: 3 GB/s, latency: 3 us, efficiency: 1}
shared_cores: 2
nodes: 1
"""


def plan_text(tp=2, pp=2, dp=1, zero=0, **more):
    keys = dict(model="model.yaml", topology="four.yaml", gpus=tp * pp * dp, tp=tp, dp=dp, pp=pp, zero=zero, micro_batch=1,
                global_batch=4, sequence=32, recompute="none", schedule="1f1b", precision="fp32")
    keys.update(more)
    count = pp * keys.get("vpp", 1)
    each = 4 // count
    stages = "".join(f"  - {{first: {each * i}, layers: {each}{', embedding: true' if i == 0 else ''}"
                     f"{', head: true' if i == count - 1 else ''}}}\n" for i in range(count))
    return "".join(f"{k}: {v}\n" for k, v in keys.items()) + "runtime: {framework: tpplan}\nstages:\n" + stages


class RunCase(unittest.TestCase):
    program = None  # tpplan

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tpplan_run_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("model.yaml", MODEL)
        self.write("four.yaml", MACHINE)
        self.write("plan.yaml", plan_text())
        self.write("text.txt", pathlib.Path(__file__).read_text() * 6)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def start(self, *arguments, **options):
        return subprocess.Popen([self.program, *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **options)

    def tpplan(self, *arguments, code=0, **options):
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"{arguments} did not end")
        self.assertEqual(process.returncode, code, f"{arguments}: {out}{err}")
        return out if code == 0 else err

    def losses(self, run):
        rows = [line.split(",") for line in (self.folder / run / "losses.csv").read_text().splitlines()[1:]]
        return {int(row[0]): float(row[1]) for row in rows}

    def wait_for_steps(self, run, process, steps=3):
        file = self.folder / run / "losses.csv"
        for _ in range(600):
            if file.exists() and len(file.read_text().splitlines()) > steps:
                return
            self.assertIsNone(process.poll(), "ended before its first steps")
            time.sleep(0.05)
        self.fail("no steps")


os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
