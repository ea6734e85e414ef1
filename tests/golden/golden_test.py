#!/usr/bin/env python3
"""Compares the main command's output with the kept one, the search's own time masked. Any change of a prediction shows.

Usage: golden_test.py PROGRAM GOLDEN_DIR [--update]
"""
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

COMMANDS = {
    "gpt10b_128": ["--model", "gpt10b.yaml", "--gpus", "128", "--threads", "1"],
    "gpt3_4096": ["--model", "gpt3-175b", "--gpus", "4096", "--threads", "1"],
    "llama70b_h100_64": ["--model", "llama-3-70b", "--gpus", "64", "--topology", "dgx-h100", "--threads", "1"],
}


def main():
    program, golden = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    bad = 0
    for name, arguments in COMMANDS.items():
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
            plan = pathlib.Path(folder, "plan.yaml").read_text()
        text = re.sub(r", in [\d.]+ \w+\n", ", in TIME\n", result.stdout) + "\n" + plan
        file = golden / f"{name}.txt"
        if "--update" in sys.argv:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            before = file.read_text().splitlines() if file.exists() else []
            print("\n".join(difflib.unified_diff(before, text.splitlines(), f"{name}: kept", "now", lineterm="")))
            bad = 1
    return bad


sys.exit(main())
