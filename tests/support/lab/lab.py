#!/usr/bin/env python3
"""A cluster on one machine: hosts are namespaces, joined by a switch of known speed.

Usage: lab.py SWITCH [--hosts N] [--rate 1gbit] [--latency 50us] [--racks R --rack-rate RATE --rack-latency TIME] [--slurm] -- COMMAND ...
Runs COMMAND on host h0 and takes the lab down when it ends. Every host has its own network, name and /etc/hosts, so that Open MPI treats
them as different machines: shared memory inside a host, TCP between hosts. $LAB_HOSTFILE lists them, with one slot each. The files and the
cores are those of this machine. Needs root, iproute2 and util-linux; --slurm needs slurm-wlm and munge.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 77  # exit code of a test that could not run here


def why_not():
    """Why no lab can be made here; None when it can."""
    if os.geteuid() != 0:
        return "a lab of several hosts needs root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "a lab of several hosts needs TAP devices (/dev/net/tun)"
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"a lab of several hosts needs {program}"
    probe = subprocess.run(["unshare", "--net", "--uts", "--mount", "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"no namespaces can be made here: {probe.stderr.strip()}"


def why_no_slurm():
    missing = [p for p in ("slurmctld", "slurmd", "sbatch", "munged") if shutil.which(p) is None]
    return f"Slurm is not installed: {', '.join(missing)}" if missing else None


def quantity(text, units):
    match = re.fullmatch(r"([0-9.]+)([a-z]*)", text)
    if not match or match[2] not in units:
        raise argparse.ArgumentTypeError(f"'{text}' needs one of the units {', '.join(units)}")
    return float(match[1]) * units[match[2]]


def bits_per_second(text):
    return quantity(text, {"gbit": 1e9, "mbit": 1e6})


def nanoseconds(text):
    return quantity(text, {"ms": 1e6, "us": 1e3})


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Lab:
    """`with Lab(switch, hosts=2, rate="1gbit") as lab:` then lab.run(["tpplan", ...])."""

    def __init__(self, switch, hosts=2, rate="1gbit", latency="50us", racks=1, rack_rate=None, rack_latency="0us"):
        self.bits, self.latency = bits_per_second(rate), nanoseconds(latency)
        self.switch_options = ["--rate", f"{self.bits:.0f}", "--latency", f"{self.latency:.0f}", "--racks", str(racks), "--rack-rate",
                               f"{bits_per_second(rack_rate or rate):.0f}", "--rack-latency", f"{nanoseconds(rack_latency):.0f}"]
        self.switch_program, self.count = switch, hosts
        self.names = [f"h{i}" for i in range(hosts)]
        self.holders, self.switch, self.statistics = [], None, None

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tpplan_lab_"))
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} {n}\n" for i, n in enumerate(self.names)))
        self.hostfile = self.folder / "hostfile"
        self.write_hostfile(1)
        try:
            for name in self.names:
                self.holders.append(self.start_host(name))
            self.switch = subprocess.Popen([self.switch_program, *(str(h.pid) for h in self.holders), *self.switch_options],
                                           stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
            if self.switch.stdout.readline() != "ready\n":
                raise RuntimeError("the switch did not start")
            for index in range(self.count):
                self.configure(index)
        except BaseException:
            self.__exit__()
            raise
        agent = self.folder / "agent"  # what mpirun calls in place of ssh
        agent.write_text('#!/bin/sh\nhost=$1\nshift\nexec nsenter --target "$(cat ' + str(self.folder) +
                         '/$host.pid)" --net --uts --mount --wdns="$PWD" sh -c "$*"\n')
        agent.chmod(0o755)
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            self.kill_on(holder.pid)
        if self.switch:
            self.switch.terminate()
            said = self.switch.communicate(timeout=10)[0]
            self.statistics = json.loads(said) if said else None
        for holder in self.holders:
            holder.kill()
            holder.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_host(self, name):
        script = f"hostname {name} && mount --bind {self.folder}/hosts /etc/hosts && ip link set lo up && echo ready && exec sleep infinity"
        holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True,
                                  preexec_fn=die_with_parent)
        if holder.stdout.readline() != "ready\n":
            raise RuntimeError(f"host {name} could not be made")
        (self.folder / f"{name}.pid").write_text(str(holder.pid))
        return holder

    def configure(self, index):
        # Segments of at most 250 us of link time, so that connections take turns; 64 KiB is the kernel's limit.
        segment = int(min(65536, max(3000, self.bits / 8 * 250e-6)))
        window = int(max(1 << 20, self.bits / 8 * (8 * self.latency * 1e-9 + 500e-6)))
        lines = [f"link set lab0 address 02:00:00:00:00:{index + 1:02x} mtu 1500 gso_max_size {segment} txqueuelen 10000 up",
                 f"addr add 10.77.0.{index + 1}/24 dev lab0"]
        lines += [f"neigh replace 10.77.0.{i + 1} lladdr 02:00:00:00:00:{i + 1:02x} dev lab0 nud permanent"
                  for i in range(self.count) if i != index]
        settings = {"ipv6/conf/all/disable_ipv6": "1", "ipv4/tcp_congestion_control": "reno", "ipv4/tcp_wmem": f"4096 65536 {window}",
                    "ipv4/tcp_rmem": f"4096 131072 {2 * window}", "ipv4/tcp_slow_start_after_idle": "0", "ipv4/tcp_no_metrics_save": "1"}
        writes = " && ".join(f"echo '{value}' > /proc/sys/net/{key}" for key, value in settings.items())
        subprocess.run(self.command(index, "sh", "-c", f"ip -batch - && {writes}"), input="\n".join(lines) + "\n", text=True, check=True)

    def write_hostfile(self, slots):
        self.hostfile.write_text("".join(f"{name} slots={slots}\n" for name in self.names))

    def command(self, index, *words):
        """`words` on a host, in the folder of the caller."""
        return ["nsenter", "--target", str(self.holders[index].pid), "--net", "--uts", "--mount", f"--wdns={os.getcwd()}", *map(str, words)]

    @property
    def environment(self):
        # "send" in pieces: a whole long message in the socket would hold up the other direction's protocol. Ranks share this machine's cores.
        mca = dict(plm="rsh", plm_rsh_agent=str(self.folder / "agent"), plm_rsh_no_tree_spawn="1", oob_tcp_if_include="lab0", pml="ob1",
                   btl="self,vader,tcp", btl_tcp_if_include="lab0", btl_tcp_flags="send", mpi_yield_when_idle="1",
                   hwloc_base_binding_policy="none")
        return {**os.environ, **{f"OMPI_MCA_{key}": value for key, value in mca.items()}, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LAB_HOSTFILE": str(self.hostfile)}

    def start(self, command, **options):
        return subprocess.Popen(self.command(0, *command), env=self.environment, **options)

    def processes_on(self, index):
        return processes_in(self.holders[index].pid)

    def kill_on(self, holder):
        for process in processes_in(holder):
            if process != holder:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass


def processes_in(holder):
    """Processes in the network namespace of `holder`."""
    try:
        space = os.readlink(f"/proc/{holder}/ns/net")
    except OSError:
        return []
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "ns/net") == space:
                found.append(int(entry.name))
        except OSError:
            pass
    return found


class Slurm:
    """A small real Slurm over the hosts of a lab: slurmctld on h0, a slurmd on every host."""

    def __init__(self, lab, cpus=2):
        self.lab, self.cpus, self.folder = lab, cpus, lab.folder / "slurm"

    def __enter__(self):
        folder, lab = self.folder, self.lab
        (folder / "state").mkdir(parents=True)
        (folder / "tmp").mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        subprocess.run(["munged", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock", f"--pid-file={folder}/munged.pid",
                        f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munged.log"], check=True, stderr=subprocess.DEVNULL)
        names = f"h[0-{lab.count - 1}]"
        (folder / "slurm.conf").write_text(
            f"ClusterName=lab\nSlurmctldHost=h0\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock\n"
            f"CredType=cred/munge\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool.%n\nSlurmctldPidFile={folder}/ctl.pid\n"
            f"SlurmdPidFile={folder}/slurmd.%n.pid\nSlurmctldLogFile={folder}/ctl.log\nSlurmdLogFile={folder}/slurmd.%n.log\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n"
            "SlurmdParameters=config_overrides\nMpiDefault=pmix\nReturnToService=2\nSwitchType=switch/none\n"
            "JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n"
            f"NodeName={names} CPUs={self.cpus} RealMemory=2000 State=UNKNOWN\n"
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
        # PMIx makes folders of the same name on every host, which here would be one folder: each host gets its own.
        (folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={folder}/tmp\n")
        self.run("slurmctld")
        for index, name in enumerate(lab.names):
            (folder / f"spool.{name}").mkdir()
            self.run("sh", "-c", f"mount -t tmpfs tmpfs {folder}/tmp && slurmd -N {name}", host=index)
        for _ in range(60):
            if self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(lab.count):
                return self
            time.sleep(0.5)
        raise RuntimeError("Slurm's hosts did not become idle")

    def __exit__(self, *_):
        for name in ("ctl.pid", "munged.pid", *(f"slurmd.{n}.pid" for n in self.lab.names)):
            try:
                os.kill(int((self.folder / name).read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                pass
        time.sleep(1)

    @property
    def environment(self):
        return {**self.lab.environment, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *words, host=0):
        return subprocess.run(self.lab.command(host, *words), env=self.environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("switch", type=pathlib.Path)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--latency", default="50us")
    parser.add_argument("--racks", type=int, default=1)
    parser.add_argument("--rack-rate")
    parser.add_argument("--rack-latency", default="0us")
    parser.add_argument("--slurm", action="store_true")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    reason = why_not() or (why_no_slurm() if given.slurm else None)
    if reason:
        print(f"lab: {reason}", file=sys.stderr)
        return SKIP
    with Lab(given.switch.resolve(), given.hosts, given.rate, given.latency, given.racks, given.rack_rate, given.rack_latency) as lab:
        lab.write_hostfile(given.slots)
        print("lab:", shlex.join(given.command), file=sys.stderr)
        if given.slurm:
            with Slurm(lab) as slurm:
                code = subprocess.run(lab.command(0, *given.command), env=slurm.environment).returncode
        else:
            code = lab.start(given.command).wait()
    print(f"lab: {json.dumps(lab.statistics)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
