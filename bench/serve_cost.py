#!/usr/bin/env python3
"""What does a live page cost? The throughput of a load while `pgdyno serve` shows it to a page, over that while the server sleeps.

One long load of `tpcb-select` on data that are cached: the driver and the server use all processors, and whatever the page's server uses
is taken from them. A reader takes the events of the page as a browser does, and throws them away, as if it were on another machine
(--browser: a headless chromium on this one). Slices of some seconds take turns in random order within pairs: in one the page's
server works, in the other it is stopped (SIGSTOP). The first second of a slice does not count. Prints the ratio of the throughputs with the
95 % interval of Student's t on the logarithms of the pairs, and the processor time that the page's server took. Pairs can be added: --keep saves the ratios and
counts those that are there. Needs python3 and PostgreSQL's server. Nothing else may work on the machine.

    cargo build --profile dist
    bench/serve_cost.py
    bench/serve_cost.py --pairs 40 --pages 1 --keep /tmp/ratios.json
    bench/serve_cost.py --browser
"""

import argparse, json, math, os, random, re, shutil, signal, socket, statistics, subprocess, tempfile, threading, time

from driver_vs_pgbench import ROOT
from telemetry_cost import AS_IT_IS, interval, keep, loaded_server, read_kept, spent, url

RAMP_UP_S = 3


class Reader(threading.Thread):
    """A page that is open on the run: asks for its events, and counts them."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.bytes = port, 0

    def run(self):
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"GET /live/run/events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
            while chunk := connection.recv(1 << 16):
                self.bytes += len(chunk)


class Browser:
    """A headless chromium that shows the page."""

    def __init__(self, port, place):
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={place}/browser", "--window-size=1280,900",
                   f"--remote-debugging-port=0", f"http://127.0.0.1:{port}/live/run"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def signal(self, number):
        os.killpg(self.process.pid, number)


def serve(args, place):
    command = [args.pgdyno, "serve", os.path.join(place, "results"), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    return process, int(re.search(r"http://127.0.0.1:(\d+)/", process.stderr.readline()).group(1))


def committed(place):
    """Transactions by second of the load."""
    by_second = {}
    with open(os.path.join(place, "results", "run", "runs", "0001", "intervals.jsonl")) as file:
        for line in file:
            one = json.loads(line)
            by_second[one["t"]] = by_second.get(one["t"], 0) + one["counts"]["committed"]
    return by_second


def measured(args, server):
    """The ratio of each pair, and the seconds of processors that the page's server took in each second that it was awake."""
    place = tempfile.mkdtemp(prefix="pgdyno-serve-cost-")
    slices = [on for _ in range(args.pairs) for on in random.sample([True, False], 2)]
    total = RAMP_UP_S + len(slices) * args.slice
    command = [args.pgdyno, "run", "--server", url(server), "--no-restore", "-w", "tpcb-select", "-s", "10", "-c", str(args.clients),
               "--ramp-up", f"{RAMP_UP_S}s", "--measure", f"{total - RAMP_UP_S}s", "--repeats", "1", *AS_IT_IS, "-q", "-y", "-o", os.path.join(place, "results", "run")]
    os.mkdir(os.path.join(place, "results"))
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    page = browser = None
    try:
        record = os.path.join(place, "results", "run", "runs", "0001", "run.json")
        go = None
        while not go:
            if load.poll() is not None:
                raise SystemExit(load.stderr.read().decode())
            time.sleep(0.05)
            if os.path.exists(record):
                go = json.load(open(record)).get("go_unix_ns")
        page, port = serve(args, place)
        readers = [Reader(port) for _ in range(0 if args.browser else args.pages)]
        for reader in readers:
            reader.start()
        browser = Browser(port, place) if args.browser else None
        time.sleep(1)
        awake_s = used_s = 0.0
        for number, on in enumerate(slices):
            begin = go / 1e9 + RAMP_UP_S + number * args.slice
            time.sleep(max(begin - time.time(), 0))
            for one in [page, browser]:
                if one:
                    (one.signal if one is browser else page.send_signal)(signal.SIGCONT if on else signal.SIGSTOP)
            before = spent([page.pid])
            time.sleep(max(begin + args.slice - 0.05 - time.time(), 0))
            if on:
                used_s += spent([page.pid]) - before
                awake_s += args.slice
        load.wait()
        page.send_signal(signal.SIGCONT)
        tps = committed(place)
        mean = lambda number: statistics.mean(tps[RAMP_UP_S + number * args.slice + s] for s in range(1, args.slice))
        ratios = []
        for first in range(0, len(slices), 2):
            on, off = (first, first + 1) if slices[first] else (first + 1, first)
            ratios.append(mean(on) / mean(off))
        memory = next(line for line in open(f"/proc/{page.pid}/status") if line.startswith("VmRSS"))
        print(f"     the page's server: {memory.split()[1]} kB; {sum(reader.bytes for reader in readers)} bytes of events; {statistics.mean(tps.values()):.0f} tps")
        return ratios, used_s / awake_s
    finally:
        for process in [load, page]:
            if process and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait()
        if browser:
            browser.signal(signal.SIGKILL)
            browser.process.wait()
        shutil.rmtree(place, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--slice", type=int, default=4, help="seconds of a slice, the first of which does not count")
    parser.add_argument("--pages", type=int, default=1)
    parser.add_argument("--browser", action="store_true", help="a headless chromium on this machine instead of a reader")
    parser.add_argument("--keep", help="file of ratios, to which these are added")
    args = parser.parse_args()
    kept = read_kept(args.keep, {"ratios": [], "used": []})
    server = loaded_server(args)
    try:
        ratios, used = measured(args, server)
        kept["ratios"] += ratios
        kept["used"].append(used)
        ratio, low, high = interval(kept["ratios"])
        shares = ", ".join(f"{100 * one / os.cpu_count():.3f}" for one in kept["used"])
        print(f"{args.clients:>4} clients: {ratio:.4f} ({low:.4f} to {high:.4f}), {len(kept['ratios'])} pairs, median {statistics.median(kept['ratios']):.4f}; "
              f"the page's server took {shares} % of the processors", flush=True)
    finally:
        server.stop()
        keep(args.keep, kept)


if __name__ == "__main__":
    main()
