#!/usr/bin/env python3
"""Reads every #include of the project's code and checks the direction of dependencies (docs/architecture.md).

Usage: include_directions.py ROOT          check the tree
       include_directions.py --self-test   plant bad includes and see them found
"""
import pathlib
import re
import sys
import tempfile

COMPONENTS = {"simulator": {"simulator"}, "planner": {"planner", "simulator"},
              "executor": {"executor", "simulator"}, "gui": {"gui", "planner", "simulator"}}
# Inside the simulator a folder may use its own level and those before it.
LEVELS = [{"units"}, {"document"}, {"model", "topology"}, {"plan"}, {"cost", "memory"}, {"engine"}, {"calibration"}]
LEVEL = {folder: i for i, folders in enumerate(LEVELS) for folder in folders}
EXTERNAL = [
    (re.compile(r"^(cu(da|blas|dnn|fft|rand|solver|sparse|pti|b/)|nccl|nvToolsExt|nvtx3|thrust/)"), ("executor/cuda/",), "CUDA and NCCL belong to executor/cuda"),
    (re.compile(r"^mpi\.h$"), ("executor/cpu/", "executor/worker/"), "mpi.h belongs to executor/cpu and executor/worker"),
    (re.compile(r"^Q[A-Z]|^Qt"), ("gui/",), "Qt belongs to gui"),
    (re.compile(r"^yaml-cpp/"), ("simulator/document/",), "yaml-cpp belongs to simulator/document"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def check(root):
    problems = []
    for component, allowed in COMPONENTS.items():
        for path in sorted((root / component).rglob("*")):
            if path.suffix not in {".cpp", ".hpp", ".cu", ".cuh", ".h"}:
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if match:
                    problems += [f"{name}:{number}: {why}" for why in judge(name, match.group(1), match.group(2), allowed)]
    return problems


def judge(name, quote, target, allowed):
    if quote == "<" and target.split("/")[0] not in COMPONENTS:
        return [why for pattern, homes, why in EXTERNAL if pattern.match(target) and not name.startswith(homes)]
    other = target.split("/")[0]
    if other not in COMPONENTS:
        return [f'"{target}" is not a path from the root']
    if other not in allowed:
        return [f"{name.split('/')[0]} may not include {other}"]
    if other == "simulator" and name.startswith("simulator/"):
        mine, theirs = LEVEL.get(name.split("/")[1]), LEVEL.get(target.split("/")[1])
        if mine is None or theirs is None:
            return [f"a folder of \"{target}\" or of this file has no level"]
        same = name.split("/")[1] == target.split("/")[1]
        if theirs > mine:
            return [f"simulator/{name.split('/')[1]} may not include simulator/{target.split('/')[1]}, which builds on it"]
        if theirs == mine and not same and mine == LEVEL["model"]:
            return ["model and topology do not know each other"]
    return []


def self_test():
    planted = {"simulator/units/a.cpp": '#include "simulator/engine/x.hpp"\n', "simulator/model/b.cpp": '#include "planner/x.hpp"\n',
               "planner/cli/c.cpp": '#include "executor/x.hpp"\n', "planner/d.cpp": "#include <mpi.h>\n",
               "simulator/cost/e.cpp": "#include <cuda_runtime.h>\n", "planner/f.cpp": "#include <QWidget>\n",
               "executor/g.cpp": '#include "planner/x.hpp"\n', "simulator/plan/h.cpp": "#include <yaml-cpp/yaml.h>\n",
               "simulator/model/i.cpp": '#include "simulator/topology/x.hpp"\n',
               "simulator/units/j.cpp": "#include <planner/x.hpp>\n", "executor/train/k.cpp": "#include <cudnn.h>\n"}
    fine = {"simulator/engine/a.cpp": '#include "simulator/cost/x.hpp"\n', "executor/cuda/b.cu": "#include <nccl.h>\n",
            "gui/views/c.cpp": '#include <QWidget>\n#include "planner/x.hpp"\n'}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**planted, **fine}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = {problem.split(":")[0] for problem in check(root)}
    if found != set(planted):
        sys.exit(f"self-test: missed {set(planted) - found}, false alarms {found - set(planted)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        found_problems = check(pathlib.Path(sys.argv[1]))
        print("\n".join(found_problems))
        sys.exit(1 if found_problems else 0)
